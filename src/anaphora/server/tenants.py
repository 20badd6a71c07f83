"""Names of tenants for the operator: they tell tenants apart and give away neither API keys nor salts.

``default`` is who sends no key where none is set; ``key-2`` is the second API key that was set. A ``cache_salt`` adds a
digest, such as ``key-2:salt-6f1c0e5d9a3b7c42``, keyed with a secret that is made at the start and written nowhere: it
names the same salt until the server stops, and the salt cannot be guessed from it.
"""

import hashlib
import secrets
from collections.abc import Iterable, Sequence

from anaphora.errors import RequestError
from anaphora.server.access import namespace_of
from anaphora.types import Namespace

DIGEST_BYTES = 8
NO_KEY = "default"


class Tenants:
    """Namespaces and their names."""

    def __init__(self, key_digests: Sequence[bytes], secret: bytes | None = None) -> None:
        """``secret``: a start's own, if several processes are to use the same names."""
        self._digests: dict[str, bytes | None] = {f"key-{number}": key for number, key in enumerate(key_digests, 1)}
        if not key_digests:
            self._digests[NO_KEY] = None
        self._names = {namespace_of(digest, None): name for name, digest in self._digests.items()}
        self._secret = secret or secrets.token_bytes(32)

    def name(self, namespace: Namespace) -> str:
        """The name of a namespace that :func:`namespace_of` made for one of the keys."""
        key, _, salt = namespace.partition(";") if namespace.startswith("key:") else ("", "", namespace)
        name = self._names[Namespace(key)]
        if not salt:
            return name
        digest = hashlib.blake2b(salt.encode(), digest_size=DIGEST_BYTES, key=self._secret)
        return f"{name}:salt-{digest.hexdigest()}"

    def namespace(self, name: str | None, salt: str | None) -> Namespace:
        """The namespace of a key, named as above, with a salt.

        Raises:
            RequestError: there is no such key, or keys are set and none was named.
        """
        if name is None and NO_KEY not in self._digests:
            raise RequestError(f"say whose: tenant must be {self._known()}", param="tenant")
        if name is not None and name not in self._digests:
            raise RequestError(f"tenant must be {self._known()} (a salt goes into cache_salt)", param="tenant")
        return namespace_of(self._digests[name or NO_KEY], salt)

    def find(self, name: str, namespaces: Iterable[Namespace]) -> Namespace | None:
        """Which of ``namespaces`` has this name, salted or not; ``None``: none has."""
        return next((namespace for namespace in namespaces if self.name(namespace) == name), None)

    def _known(self) -> str:
        names = list(self._digests)
        return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"

"""Who asks: the tenant by API key and salt, the operator by admin key or, without one, by being on this machine."""

import hashlib
import hmac
import ipaddress

from starlette.datastructures import Headers
from starlette.requests import Request

from anaphora.server.errors import ForbiddenError, WrongKeyError
from anaphora.server.settings import ServerSettings
from anaphora.types import Namespace

_PROXY_HEADERS = ("forwarded", "via", "x-forwarded-for", "x-real-ip")


class Access:
    """Checks keys; keeps only digests of them."""

    def __init__(self, settings: ServerSettings) -> None:
        self._key_digests = tuple(_digest(key) for key in settings.api_keys)
        self._admin_digest = None if settings.admin_key is None else _digest(settings.admin_key)
        self._public_metrics = settings.public_metrics

    @property
    def key_digests(self) -> tuple[bytes, ...]:
        """Of the API keys, in the order in which they were set."""
        return self._key_digests

    def tenant(self, headers: Headers, salt: str | None = None) -> Namespace:
        """Whose blocks a request may share.

        Raises:
            WrongKeyError: keys are set and the request has none of them.
        """
        return namespace_of(self._key_digest(headers), salt)

    def require_operator(self, request: Request) -> None:
        """Let the operator pass.

        Raises:
            WrongKeyError: an admin key is set and the request lacks it.
            ForbiddenError: none is set, and the request does not come straight from this machine, or from a web page.
        """
        if self._admin_digest is None:
            _require_loopback(request)
            return
        token = _bearer(request.headers)
        if token is None or not hmac.compare_digest(_digest(token), self._admin_digest):
            raise WrongKeyError("this route needs the admin key as a bearer token in Authorization")

    def require_metrics_reader(self, request: Request) -> None:
        """As :meth:`require_operator`, unless metrics are public."""
        if not self._public_metrics:
            self.require_operator(request)

    def _key_digest(self, headers: Headers) -> bytes | None:
        """Digest of the request's API key; ``None`` if no keys are set. All keys are compared, in constant time."""
        if not self._key_digests:
            return None
        token = _bearer(headers)
        if token is None:
            raise WrongKeyError("no API key: send it as a bearer token in Authorization")
        digest = _digest(token)
        if sum(hmac.compare_digest(digest, known) for known in self._key_digests) == 0:
            raise WrongKeyError("the API key is not known here")
        return digest


def namespace_of(key_digest: bytes | None, salt: str | None) -> Namespace:
    """The cache namespace of a tenant. Each part is tagged with its kind and length, so no salt can pass for a key."""
    parts = []
    if key_digest is not None:
        parts.append(f"key:{len(key_digest)}:{key_digest.hex()}")
    if salt is not None:
        parts.append(f"salt:{len(salt)}:{salt}")
    return Namespace(";".join(parts))


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def _bearer(headers: Headers) -> str | None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def _require_loopback(request: Request) -> None:
    """A request straight from this machine: no proxy between, no web page behind it, no foreign name for this host.

    The last keeps out pages whose host name is made to point here (DNS rebinding): they send no ``Origin`` on a GET.
    """
    headers = request.headers
    is_local = request.client is not None and _is_loopback(request.client.host)
    is_direct = "origin" not in headers and not any(name in headers for name in _PROXY_HEADERS)
    if not (is_local and is_direct and _is_loopback(request.url.hostname or "")):
        raise ForbiddenError("without --admin-key this route answers only direct requests from the same machine")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback

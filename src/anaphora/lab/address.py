"""A base URL, however it was written, taken apart once."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from anaphora.errors import ConfigError

_VERSIONED = re.compile(r"(v\d+\w*|openai)$")


@dataclass(frozen=True, slots=True)
class BaseUrl:
    """Where a server is. ``root`` is the path before the API (``""`` as a rule; ``/health`` and ``/metrics`` are
    below it), ``api`` the path before ``/chat/completions``."""

    scheme: str
    host: str
    port: int
    root: str
    api: str

    @classmethod
    def parse(cls, text: str) -> "BaseUrl":
        """From ``http://host:8000``, with or without ``/v1``, with or without slashes at the end.

        Raises :class:`ConfigError` for what is no base URL, and for a URL that carries a password: keys belong into
        an environment variable.
        """
        if re.search(r"\s", text.strip()) or not text.strip():
            raise ConfigError(f"{text!r} is no base URL: write it like http://127.0.0.1:8000")
        try:
            parts = urlsplit(text if "://" in text else f"http://{text}")
            port = parts.port
            host = (parts.hostname or "").encode("idna").decode("ascii")  # as DNS and headers want it
        except ValueError as error:
            raise ConfigError(f"{text!r} is no URL ({error}): write it like http://127.0.0.1:8000") from error
        if parts.scheme not in ("http", "https") or not host:
            raise ConfigError(f"{text!r} is no base URL: write it like http://127.0.0.1:8000")
        if parts.username or parts.password:
            raise ConfigError("the URL holds a user name or password: use --api-key-env NAME instead")
        if parts.query or parts.fragment:
            raise ConfigError(f"the base URL must end before '{text[text.index('?' if parts.query else '#') :]}'")
        path = parts.path.rstrip("/")
        for endpoint in ("/chat/completions", "/completions", "/models"):
            path = path.removesuffix(endpoint)
        return cls(
            scheme=parts.scheme,
            host=host,
            port=port or (443 if parts.scheme == "https" else 80),
            root=path.removesuffix("/v1"),
            api=path if _VERSIONED.search(path) else f"{path}/v1",
        )

    @property
    def authority(self) -> str:
        """Host and port as the ``Host`` header wants them: no default port, IPv6 in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.scheme == "https" else 80) else f"{host}:{self.port}"

    @property
    def api_url(self) -> str:
        """The base URL as clients want it that take it with the version, like the official one."""
        return f"{self.scheme}://{self.authority}{self.api}"

    @property
    def other_try(self) -> str:
        """What to do where this address has no API behind it, as words."""
        if self.api == "/v1":
            return "check the address: the API is looked for below /v1"
        return f"try --target {self.scheme}://{self.authority}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.root}"


def looks_like_address(text: str) -> bool:
    """Whether a word is meant as an address rather than as a name: it has a dot, a colon or a slash in it."""
    return any(mark in text for mark in ".:/") or text == "localhost"

"""HTTP proxies as the environment names them: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY, in either case."""

import asyncio
import base64
import ipaddress
import socket
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from anaphora.errors import ConfigError, TargetError
from anaphora.lab.address import BaseUrl

_MAX_HEAD_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that is spoken to in plain HTTP. ``authorization`` is never shown."""

    host: str
    port: int
    authorization: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def headers(self) -> dict[str, str]:
        """What the proxy itself wants to hear with a request."""
        return {} if self.authorization is None else {"Proxy-Authorization": self.authorization}

    async def tunnel_to(self, base: BaseUrl) -> socket.socket:
        """A socket that the proxy has connected to the server; :class:`TargetError` if it refuses."""
        loop = asyncio.get_running_loop()
        family, kind, protocol, _, address = (await loop.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM))[0]
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, address)
            await loop.sock_sendall(sock, self._connect_request(base))
            said = await _status_line(sock)
        except BaseException:
            sock.close()
            raise
        if not said.partition(" ")[2].startswith("2"):
            sock.close()
            raise TargetError(
                f"the proxy {self} does not connect to {base.host} (it says: {said[:80] or 'nothing'}): correct "
                "HTTPS_PROXY, or name the host in NO_PROXY"
            )
        return sock

    def _connect_request(self, base: BaseUrl) -> bytes:
        there = f"[{base.host}]:{base.port}" if ":" in base.host else f"{base.host}:{base.port}"
        headers = {"Host": there, **self.headers}
        lines = [f"CONNECT {there} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        return "\r\n".join(lines).encode("latin-1")


async def _status_line(sock: socket.socket) -> str:
    """The first line of the proxy's answer, once its head has been read, and not a byte more."""
    loop, head = asyncio.get_running_loop(), bytearray()
    while not head.endswith(b"\r\n\r\n") and len(head) < _MAX_HEAD_BYTES:
        byte = await loop.sock_recv(sock, 1)
        if not byte:
            break
        head += byte
    return head.split(b"\r\n", 1)[0].decode("latin-1")


def proxy_for(base: BaseUrl) -> Proxy | None:
    """The proxy that the environment names for this server; none for this machine's own addresses.

    Raises :class:`ConfigError` for one that is no HTTP proxy.
    """
    proxies = getproxies_environment()
    url = proxies.get(base.scheme) or proxies.get("all")
    if not url or _is_here(base.host) or proxy_bypass(f"{base.host}:{base.port}", proxies):
        return None
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port or 80
    except ValueError:
        parts, host, port = urlsplit(""), None, 0
    if parts.scheme != "http" or host is None:
        raise ConfigError(
            f"the proxy that the environment names for {base.scheme} is no http://HOST:PORT: correct it, or name "
            f"{base.host} in NO_PROXY"
        )
    authorization = None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return Proxy(host, port, authorization)


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

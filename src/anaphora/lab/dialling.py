"""Opening connections to one server: directly or through a proxy, with TLS where its scheme wants that.

Certificates are checked against the system's authorities, or those of the file that ``SSL_CERT_FILE`` names.
"""

import asyncio
import os
import ssl

from anaphora.errors import TargetError
from anaphora.lab.address import BaseUrl
from anaphora.lab.clock import Clock
from anaphora.lab.connection import Connection
from anaphora.lab.proxy import proxy_for


class Dialler:
    """Makes connections to ``base``; the proxy is taken from the environment once."""

    def __init__(self, base: BaseUrl, clock: Clock, *, timeout_s: float) -> None:
        self._base = base
        self._clock = clock
        self._timeout_s = timeout_s
        self._tls: ssl.SSLContext | None = None
        self.proxy = proxy_for(base)

    async def dial(self) -> Connection:
        """A connection that stands, its TLS handshake done. Raises :class:`TargetError` that says what to do."""
        base = self._base
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._connect()
        except TimeoutError as error:
            raise TargetError(
                f"no reply from {base} within {self._timeout_s:g} s: check host and port, and firewalls on the way"
            ) from error
        except ssl.SSLCertVerificationError as error:
            advice = "name its authority's file in SSL_CERT_FILE"
            raise TargetError(f"{base}: its certificate is not trusted ({error.verify_message}): {advice}") from error
        except ssl.SSLError as error:
            advice = "write http:// if the server speaks no TLS, else look into its log"
            raise TargetError(f"{base}: TLS failed ({error.reason}): {advice}") from error
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
            if self.proxy is not None:
                raise TargetError(
                    f"nothing answers at the proxy {self.proxy} ({reason}): correct the environment's proxy, or name "
                    f"{base.host} in NO_PROXY"
                ) from error
            raise TargetError(
                f"nothing answers at {base} ({reason}): start the server, or correct the address"
            ) from error

    async def _connect(self) -> Connection:
        loop, base = asyncio.get_running_loop(), self._base
        if base.scheme == "https":
            tls = self._tls = self._tls or ssl.create_default_context()  # reads all authorities: once
            if self.proxy is not None:
                sock = await self.proxy.tunnel_to(base)
                _, connection = await loop.create_connection(self._new, sock=sock, ssl=tls, server_hostname=base.host)
            else:
                _, connection = await loop.create_connection(self._new, base.host, base.port, ssl=tls)
            return connection
        host, port = (base.host, base.port) if self.proxy is None else (self.proxy.host, self.proxy.port)
        _, connection = await loop.create_connection(self._new, host, port)
        return connection

    def _new(self) -> Connection:
        return Connection(self._clock)

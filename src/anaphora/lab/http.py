"""A small HTTP/1.1 client for timing: a warm connection, stamps of the bytes' arrival, nothing parsed before its stamp.

The clock starts when the whole request, encoded beforehand, is handed to the socket. Every piece of the answer carries
the stamp of its arrival (:mod:`anaphora.lab.connection`); framing, decompression and JSON come after that.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from anaphora.errors import TargetError
from anaphora.lab.address import BaseUrl
from anaphora.lab.clock import Clock
from anaphora.lab.connection import Connection
from anaphora.lab.dialling import Dialler
from anaphora.lab.framing import ResponseFraming


class BodySink(Protocol):
    """Takes the decoded body of an answer piece by piece, each with the stamp of the bytes that carried it."""

    def begin(self, status: int, headers: Mapping[str, str]) -> None: ...
    def feed(self, ns: int, piece: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class Exchange:
    """What one request and its answer took. ``complete``: the answer reached its announced end."""

    status: int
    headers: Mapping[str, str]
    sent_ns: int
    first_byte_ns: int
    end_ns: int
    connection_reused: bool
    complete: bool


class HttpClient:
    """Requests to one base URL over connections that are kept. ``headers`` go with every request and are never
    shown."""

    def __init__(
        self,
        base: BaseUrl,
        *,
        headers: Mapping[str, str] | None = None,
        clock: Clock,
        connect_timeout_s: float = 10.0,
        max_body_bytes: int = 64 << 20,
    ) -> None:
        self._base = base
        self._headers = dict(headers or {})
        self._dialler = Dialler(base, clock, timeout_s=connect_timeout_s)
        self._max_body_bytes = max_body_bytes
        self._idle: list[Connection] = []

    async def exchange(
        self, method: str, path: str, *, body: bytes = b"", sink: BodySink, timeout_s: float = 600.0
    ) -> Exchange:
        """Send one request and pass its answer to ``sink``. Raises :class:`TargetError` if none comes in time."""
        request = self._encode(method, path, body)
        try:
            async with asyncio.timeout(timeout_s):
                kept = self._take_idle()
                exchange = await self._converse(kept or await self._connect(), request, sink)
                if exchange is None and kept is not None:  # the server had closed what stood, used before or not
                    exchange = await self._converse(await self._connect(), request, sink)
        except TimeoutError as error:
            raise TargetError(
                f"{self._base} gave no complete answer within {timeout_s:g} s: check that this is the API's port, and "
                "look into the server's log"
            ) from error
        if exchange is None:
            tls = ", or write https:// if it speaks TLS" if self._base.scheme == "http" else ""
            advice = f"look into the server's log{tls}"
            raise TargetError(f"{self._base} closed the connection without an answer: {advice}")
        return exchange

    async def open(self) -> None:
        """Have a connection standing before the clock starts: one that was used before if there is one."""
        self._idle.append(self._take_idle() or await self._connect())

    @property
    def num_idle(self) -> int:
        """Connections that stand and wait for a request."""
        return len(self._idle)

    async def close(self) -> None:
        """Close the kept connections, and let the loop see them closed."""
        while self._idle:
            self._idle.pop().close()
        await asyncio.sleep(0)

    def _take_idle(self) -> Connection | None:
        """A connection that stands, if there is one."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_idle:
                return connection
            connection.close()
        return None

    async def _connect(self) -> Connection:
        return await self._dialler.dial()

    async def _converse(self, connection: Connection, request: bytes, sink: BodySink) -> Exchange | None:
        """One request on this connection; ``None`` if a kept connection ended before the first byte of an answer."""
        reused = connection.num_exchanges > 0
        connection.num_exchanges += 1
        framing = ResponseFraming()
        first_byte_ns = 0
        begun = False
        num_bytes = num_decoded = 0
        try:
            sent_ns = end_ns = connection.send(request)
            while not framing.complete and (arrival := await connection.arrival()) is not None:
                end_ns, data = arrival
                first_byte_ns = first_byte_ns or end_ns
                num_bytes += len(data)
                if max(num_bytes, num_decoded) > self._max_body_bytes:
                    raise TargetError(f"{self._base} sent more than {self._max_body_bytes} bytes in one answer")
                piece = framing.feed(data)
                if framing.has_head and not begun:
                    begun = True
                    sink.begin(framing.status, framing.headers)
                if piece:
                    num_decoded += len(piece)
                    sink.feed(end_ns, piece)
        except BaseException:
            connection.close()
            raise
        if not first_byte_ns:
            return None
        framing.end_of_connection()
        if framing.complete and framing.keeps_connection and connection.is_idle:
            self._idle.append(connection)
        else:
            connection.close()
        return Exchange(framing.status, framing.headers, sent_ns, first_byte_ns, end_ns, reused, framing.complete)

    def _encode(self, method: str, path: str, body: bytes) -> bytes:
        headers = {
            "Host": self._base.authority,
            "User-Agent": "anaphora",
            "Accept": "*/*",
            "Accept-Encoding": "identity",
            **({"Content-Type": "application/json"} if body else {}),
            **({"Content-Length": str(len(body))} if body or method == "POST" else {}),
            **self._headers,
        }
        proxy = self._dialler.proxy
        if proxy is not None and self._base.scheme == "http":
            path, headers = f"http://{self._base.authority}{path}", {**headers, **proxy.headers}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        return "\r\n".join(lines).encode("latin-1") + body

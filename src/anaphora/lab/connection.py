"""One connection, read as bytes arrive: each piece with the stamp of its arrival, queued until somebody takes it."""

import asyncio
import contextlib
import time
from collections import deque

from anaphora.lab.clock import Clock
from anaphora.lab.kernel_stamps import KERNEL_NOTES_ARRIVALS, StampedSocket


class Connection(asyncio.Protocol):
    """One TCP or TLS connection.

    Over plain TCP the stamp is the kernel's where it gives one and ``clock`` is the system's own; under TLS, which
    decrypts before anybody can look, and with another clock, it is the reading in the event loop's callback.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._arrivals: deque[tuple[int, bytes]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._stamped: StampedSocket | None = None
        self.lost_ns: int | None = None
        self.num_exchanges = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        is_plain = transport.get_extra_info("sslcontext") is None
        if KERNEL_NOTES_ARRIVALS and is_plain and self._clock is time.monotonic_ns:
            transport.pause_reading()
            self._stamped = StampedSocket(transport.get_extra_info("socket"), self._clock)
            asyncio.get_running_loop().add_reader(self._stamped.fileno(), self._read, self._stamped)

    def data_received(self, data: bytes) -> None:
        self._arrived(self._clock(), data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def send(self, request: bytes) -> int:
        """Hand the request to the socket; returns the clock's reading just before."""
        assert self._transport is not None
        sent_ns = self._clock()
        self._transport.write(request)
        return sent_ns

    async def arrival(self) -> tuple[int, bytes] | None:
        """The next stamped bytes, or ``None`` once the connection is lost and everything was taken."""
        while not self._arrivals:
            if self.lost_ns is not None:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._arrivals.popleft()

    @property
    def is_idle(self) -> bool:
        """Open, and nothing unasked has arrived: fit for the next request."""
        return self.lost_ns is None and not self._arrivals

    def close(self) -> None:
        self._stop_reading()
        if self._transport is not None:
            self._transport.close()

    def _read(self, stamped: StampedSocket) -> None:
        arrived = None
        with contextlib.suppress(OSError):
            arrived = stamped.read()
            if arrived is None:
                return
        if arrived is None or not arrived[1]:
            self._end()
            self.close()
        else:
            self._arrived(*arrived)

    def _arrived(self, ns: int, data: bytes) -> None:
        self._arrivals.append((ns, data))
        self._wake()

    def _end(self) -> None:
        self._stop_reading()
        if self.lost_ns is None:
            self.lost_ns = self._clock()
            self._wake()

    def _stop_reading(self) -> None:
        if self._stamped is not None:
            asyncio.get_running_loop().remove_reader(self._stamped.fileno())
            self._stamped.close()
            self._stamped = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

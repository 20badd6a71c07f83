"""Frames on a stream: four bytes of length, then so many bytes."""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import cast

_LENGTH = struct.Struct("<I")


class FrameChannel(asyncio.Protocol):
    """Whole frames in and out, in order. It never blocks: what the other side does not read yet waits in memory."""

    def __init__(self, on_frame: Callable[[memoryview], None], on_lost: Callable[[], None]) -> None:
        """``on_frame``'s view is valid only during the call. ``on_lost`` comes once and last."""
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()

    @classmethod
    async def open(
        cls, end: socket.socket, on_frame: Callable[[memoryview], None], on_lost: Callable[[], None]
    ) -> "FrameChannel":
        """Speak on a connected stream socket, which belongs to the channel from now on."""
        loop = asyncio.get_running_loop()
        _, channel = await loop.create_connection(lambda: cls(on_frame, on_lost), sock=end)
        return channel

    def send(self, payload: bytes) -> None:
        """Send a frame; to a channel that is lost or closed, nothing."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(_LENGTH.pack(len(payload)) + payload)

    def close(self) -> None:
        """Close it once everything is sent; ``on_lost`` follows."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's: it is open."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class

    def data_received(self, data: bytes) -> None:
        """asyncio's: some bytes have come; most often they are one or several whole frames."""
        if self._buffer:
            self._buffer += data
            consumed = self._take(memoryview(bytes(self._buffer)))
            del self._buffer[:consumed]
        else:
            consumed = self._take(memoryview(data))
            self._buffer += data[consumed:]

    def connection_lost(self, error: Exception | None) -> None:
        """asyncio's: nothing comes any more."""
        self._transport = None
        self._on_lost()

    def _take(self, view: memoryview) -> int:
        """Pass the whole frames on; how many bytes they were."""
        start = 0
        while len(view) - start >= _LENGTH.size:
            begin = start + _LENGTH.size
            end = begin + _LENGTH.unpack_from(view, start)[0]
            if end > len(view):
                break
            self._on_frame(view[begin:end])
            start = end
        return start

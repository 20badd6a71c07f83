"""A server with known timings, run as a process of its own: every event holds the clock's reading just before its send.

    python -m anaphora.lab.calibration.timed_server

It writes its port on a line and serves until its standard input ends, so it never outlives whoever started it. Any
POST is answered with an event stream after the ``timing`` that its JSON body asks for. The clock is the system's
monotonic one, which all processes of a machine share.
"""

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from typing import Any

from anaphora.protocol.sse import ENCODED_DONE, encode_event

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_END = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Timing:
    """One answer: the first event so long after its request, then further ones at a steady pace."""

    first_delay_ms: float = 100.0
    num_events: int = 40
    interval_ms: float = 20.0

    @property
    def duration_s(self) -> float:
        """From the request to the last event."""
        return (self.first_delay_ms + (self.num_events - 1) * self.interval_ms) / 1000


class Streams:
    """How many answers are under way, and the most that were at once since there last was none."""

    def __init__(self) -> None:
        self._num_open = 0
        self.most = 0

    def begin(self) -> None:
        self.most = max(self.most, self._num_open + 1) if self._num_open else 1
        self._num_open += 1

    def end(self) -> None:
        self._num_open -= 1


class TimedConnection(asyncio.Protocol):
    """Reads requests one after another and answers each by timers."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._loop = asyncio.get_running_loop()
        self._received = b""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        length = content_length(head)
        if not found or len(body) < length:
            return
        self._received = body[length:]
        self._begin(Timing(**json.loads(body[:length])["timing"]))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._streams.end()

    def _begin(self, timing: Timing) -> None:
        self._streams.begin()
        first_at = self._loop.time() + timing.first_delay_ms / 1000
        self._transport.write(_HEAD)
        self._timer = self._loop.call_at(first_at, self._send, timing, first_at, 0)

    def _send(self, timing: Timing, first_at: float, number: int) -> None:
        """Send one event and set the timer of the next; the pace does not drift, whatever a send takes."""
        if number < timing.num_events:
            self._transport.write(_EVENT % time.monotonic_ns())
            due = first_at + (number + 1) * timing.interval_ms / 1000
            self._timer = self._loop.call_at(due, self._send, timing, first_at, number + 1)
            return
        self._timer = None
        usage = {"choices": [], "usage": {"num_streams_at_once": self._streams.most}}
        self._transport.write(_chunk(encode_event(json.dumps(usage)) + ENCODED_DONE) + _END)
        self._streams.end()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _event() -> bytes:
    """An event with room for the clock's reading in 20 digits, made beforehand: nothing is encoded between the reading
    and the send."""
    choice: dict[str, Any] = {"index": 0, "delta": {"content": "0" * 20}, "finish_reason": None}
    event = encode_event(json.dumps({"object": "chat.completion.chunk", "choices": [choice]}))
    return _chunk(event).replace(b"0" * 20, b"%020d")


_EVENT = _event()


def content_length(head: bytes) -> int:
    """What a request's head says of its body; 0 without a word."""
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


async def serve_until_input_ends() -> None:
    """Listen on a free port of the loopback interface, write it on a line, and stop at the end of standard input."""
    loop = asyncio.get_running_loop()
    streams = Streams()
    server = await loop.create_server(lambda: TimedConnection(streams), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.buffer.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve_until_input_ends())

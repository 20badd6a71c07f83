"""The client's side of an answer of the server with known timings: its stamps beside the server's."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from anaphora.protocol.sse import DONE, EventStreamDecoder


@dataclass(slots=True)
class TimedStream:
    """A :class:`~anaphora.lab.http.BodySink`. ``errors_ns``: of each event, the client's stamp minus the server's.

    The server sends every event by itself. Where several are read at once, the client came too late for all but the
    last one, whose arrival is all that the kernel still knows: ``shares_stamp`` says which ones these are.
    """

    errors_ns: list[int] = field(default_factory=list)
    shares_stamp: list[bool] = field(default_factory=list)
    num_streams_at_once: int = 0
    """How many answers were under way on the server; told at the end."""
    _decoder: EventStreamDecoder = field(default_factory=EventStreamDecoder)

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        pass

    def feed(self, ns: int, piece: bytes) -> None:
        """Bytes of the answer that came at ``ns``."""
        num_before = len(self.errors_ns)
        for event in self._decoder.feed(piece):
            if event.data == DONE:
                continue
            chunk = json.loads(event.data)
            self.errors_ns += [ns - int(choice["delta"]["content"]) for choice in chunk["choices"]]
            if "usage" in chunk:
                self.num_streams_at_once = chunk["usage"]["num_streams_at_once"]
        num_new = len(self.errors_ns) - num_before
        self.shares_stamp += [number < num_new for number in range(1, num_new + 1)]

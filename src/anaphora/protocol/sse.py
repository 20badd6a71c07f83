"""The event-stream format (WHATWG HTML, section 9.2): encoding for the server, incremental decoding for the lab.

The decoder's one idea: lines are cut as soon as they are complete, events as soon as their blank line is, and nothing
is scanned twice, so a stamp taken when bytes arrive belongs to the events that those bytes completed.
"""

from dataclasses import dataclass

DONE = "[DONE]"
"""Data of the event that ends an OpenAI-style stream."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LF = 0x0A


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event. ``data``: its data lines joined by LF, possibly empty. ``event``: its type, ``message`` unless named.
    ``id``: the last event id seen so far in the stream, ``""`` before any."""

    data: str
    event: str = "message"
    id: str = ""


def encode_event(data: bytes | str, *, event: str | None = None) -> bytes:
    """One event as bytes: ``data`` (JSON as a rule) on as many ``data:`` lines as it has lines, then the blank line."""
    raw = data.encode() if isinstance(data, str) else data
    head = b"" if event is None else b"event: " + event.encode() + b"\n"
    if b"\n" not in raw and b"\r" not in raw:
        return head + b"data: " + raw + b"\n\n"
    lines = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return head + b"".join(b"data: " + line + b"\n" for line in lines) + b"\n"


ENCODED_DONE = encode_event(DONE)


class EventStreamDecoder:
    """Bytes in, events out, whatever the chunk borders: inside a character, a line end or a field name.

    Lines end with LF, CRLF or CR, and the space after the colon is optional. A CR at a chunk's end completes its line
    at once; an LF that opens the next chunk then belongs to it. Comments (pings) and unknown fields are dropped.
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._at_start = True
        self._after_cr = False
        self._data: list[str] = []
        self._event = ""
        self._id = ""

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """The events that this chunk completes, in order."""
        if not chunk:
            return []
        if self._after_cr and chunk[0] == _LF:
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        events: list[ServerSentEvent] = []
        for piece in chunk.splitlines(keepends=True):  # bytes split at LF, CRLF and CR only; U+2028 is text
            line = piece.rstrip(b"\r\n")
            self._line += line
            if len(line) == len(piece):
                break  # no line end yet: the rest comes with a later chunk
            event = self._end_line()
            if event is not None:
                events.append(event)
        return events

    def close(self) -> list[ServerSentEvent]:
        """The stream has ended: the event that lacks only its blank line, if there is one.

        The standard discards it; servers that forget the last blank line are common enough to be read.
        """
        if self._line:
            self._end_line()
        event = self._dispatch()
        return [] if event is None else [event]

    def _end_line(self) -> ServerSentEvent | None:
        raw = bytes(self._line)
        self._line.clear()
        if self._at_start:
            raw = raw.removeprefix(_BYTE_ORDER_MARK)
            self._at_start = False
        if not raw:
            return self._dispatch()
        name, _, value = raw.decode("utf-8", errors="replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
        return None

    def _dispatch(self) -> ServerSentEvent | None:
        event = ServerSentEvent("\n".join(self._data), self._event or "message", self._id) if self._data else None
        self._data = []
        self._event = ""
        return event

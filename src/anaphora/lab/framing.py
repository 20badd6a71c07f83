"""HTTP/1.x answers as a byte machine: head, then a body by length, by chunks or until the connection ends."""

import zlib
from enum import Enum, auto

from anaphora.errors import TargetError

_MAX_HEAD_BYTES = 64 << 10
_COMPRESSED = ("gzip", "x-gzip", "deflate")
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
"""The first bytes tell which."""
_NO_BODY = frozenset({204, 304})


class _State(Enum):
    HEAD = auto()
    LENGTH = auto()
    CHUNK_SIZE = auto()
    CHUNK = auto()
    CHUNK_END = auto()
    TRAILER = auto()
    UNTIL_CLOSE = auto()
    DONE = auto()


class ResponseFraming:
    """Fed with whatever arrives, gives the body bytes that are in it. ``headers`` has lower-case names."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.keeps_connection = False
        self._state = _State.HEAD
        self._buffer = bytearray()
        self._remaining = 0
        self._inflate: zlib._Decompress | None = None

    @property
    def has_head(self) -> bool:
        return self._state is not _State.HEAD

    @property
    def complete(self) -> bool:
        return self._state is _State.DONE

    def feed(self, data: bytes) -> bytes:
        """Take bytes from the wire; returns the decoded body bytes they hold. Raises :class:`TargetError` if this is
        no HTTP."""
        self._buffer += data
        body = bytearray()
        while self._buffer and self._advance(body):
            pass
        return self._decompress(bytes(body))

    def end_of_connection(self) -> None:
        """The other side has closed: that ends a body without an announced length."""
        if self._state is _State.UNTIL_CLOSE:
            self._state = _State.DONE

    def _advance(self, body: bytearray) -> bool:
        """One step of the machine; ``False`` when it needs more bytes, or none."""
        match self._state:
            case _State.HEAD:
                return self._read_head()
            case _State.LENGTH | _State.CHUNK:
                return self._take(body)
            case _State.UNTIL_CLOSE:
                body += self._buffer
                self._buffer.clear()
                return False
            case _State.DONE:
                return False
            case _:
                line = self._line()
                if line is not None:
                    self._read_chunk_line(line)
                return line is not None

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if not self._buffer.startswith(b"HTTP/"[: len(self._buffer)]) or (
            end < 0 and len(self._buffer) > _MAX_HEAD_BYTES
        ):
            raise TargetError("the answer is not HTTP: is this the right port, and the right scheme?")
        if end < 0:
            return False
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        version, _, rest = first.partition(" ")
        try:
            self.status = int(rest[:3])
        except ValueError as error:
            raise TargetError("the answer is not HTTP: it has no status") from error
        if 100 <= self.status < 200:
            return True  # an interim answer: the real head follows
        pairs = (line.partition(":") for line in lines)
        self.headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        wish = self.headers.get("connection", "").lower()
        self.keeps_connection = "close" not in wish and (version != "HTTP/1.0" or "keep-alive" in wish)
        self._begin_body()
        return True

    def _begin_body(self) -> None:
        encoding = self.headers.get("content-encoding", "identity").strip().lower() or "identity"
        if encoding in _COMPRESSED:
            self._inflate = zlib.decompressobj(_GZIP_OR_ZLIB)
        elif encoding != "identity":
            raise TargetError(
                f"the answer is compressed with {encoding[:40]!r}, which was not asked for: turn that off in the proxy"
            )
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            self._state = _State.CHUNK_SIZE
        elif "content-length" in self.headers or self.status in _NO_BODY:
            self._remaining = self._declared_length()
            self._state = _State.LENGTH if self._remaining else _State.DONE
        else:
            self.keeps_connection = False
            self._state = _State.UNTIL_CLOSE

    def _declared_length(self) -> int:
        length = self.headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit() and len(length) < 19):
            raise TargetError(f"the answer's Content-Length is no number ({length[:40]!r}): a proxy may be at fault")
        return int(length)

    def _take(self, body: bytearray) -> bool:
        piece = self._buffer[: self._remaining]
        del self._buffer[: len(piece)]
        body += piece
        self._remaining -= len(piece)
        if self._remaining == 0:
            self._state = _State.CHUNK_END if self._state is _State.CHUNK else _State.DONE
        return self._remaining == 0

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\n")
        if end < 0:
            return None
        line = bytes(self._buffer[:end]).rstrip(b"\r")
        del self._buffer[: end + 1]
        return line

    def _read_chunk_line(self, line: bytes) -> None:
        if self._state is _State.CHUNK_END:
            self._state = _State.CHUNK_SIZE
        elif self._state is _State.TRAILER:
            self._state = _State.TRAILER if line else _State.DONE
        else:
            try:
                self._remaining = int(line.partition(b";")[0], 16)
            except ValueError as error:
                raise TargetError("the answer's chunks are damaged: a proxy in between may be at fault") from error
            self._state = _State.CHUNK if self._remaining else _State.TRAILER

    def _decompress(self, body: bytes) -> bytes:
        if self._inflate is None or not body:
            return body
        try:
            text = self._inflate.decompress(body)
            while self._inflate.eof and (rest := self._inflate.unused_data):  # gzip's members may follow one another
                self._inflate = zlib.decompressobj(_GZIP_OR_ZLIB)
                text += self._inflate.decompress(rest)
            return text
        except zlib.error as error:
            raise TargetError(f"the answer's compression is damaged ({error})") from error

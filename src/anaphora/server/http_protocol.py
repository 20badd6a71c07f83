"""One client connection: uvicorn's, with limits on the head of a request, and an answer to whatever is no HTTP."""

import asyncio
import logging
import sys
from collections.abc import MutableMapping
from typing import Any

from pydantic_core import to_json
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from anaphora.errors import RequestError
from anaphora.server.errors import HeadTooLargeError, error_answer, status_of

HEAD_S = 30.0
"""From connecting, or from a later request's first byte, to the end of its head. Idle kept-alive connections have their
own limit. Without this one, clients that send nothing would use up the process' file descriptors."""
MAX_HEAD_BYTES = 2**16
"""Of the request line and all headers; the parser itself has no limit."""
LINGER_S = 2.0
"""After a refusal, so long what still comes is read and thrown away: to close at once would reset the connection, and
the client might never see the answer."""
_TLS_HANDSHAKE = b"\x16\x03"
_BODY_HEADERS = frozenset((b"content-length", b"transfer-encoding"))
_log = logging.getLogger(__name__)


class HttpProtocol(HttpToolsProtocol):
    """What it adds to uvicorn's:

    - A connection whose request head does not come in time is closed.
    - What is no HTTP, or has too long a head, gets the error object, after the answers to the requests before it.
    - A client that closes its sending side has either gone or waits for the answer: the two look the same. The
      application is told that the client disconnected, but what it then sends still goes out. So answers that do not
      watch for a disconnect are given, generations are ended, and who still reads learns why.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_timer: asyncio.TimerHandle | None = None
        self._head_bytes: int | None = None
        """Of the head that is being received, but for the part that came with its beginning; ``None`` between heads."""
        self._refusal: RequestError | None = None
        """Why nothing more is read from this connection."""
        self._input_has_ended = False
        self.app = _told_of_half_close(self.app, self)

    @property
    def input_has_ended(self) -> bool:
        """Whether the client has closed its sending side."""
        return self._input_has_ended

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The wait for the first head begins."""
        super().connection_made(transport)
        self._start_waiting()

    def data_received(self, data: bytes) -> None:
        """Parse, unless this connection was refused; then it is only emptied."""
        if self._refusal is not None:
            return
        is_first = self._head_timer is not None and self._head_bytes is None
        if is_first and data.startswith(_TLS_HANDSHAKE):
            self._refuse(_no_http("this looks like TLS, but the server speaks http://, not https://"))
            return
        if self._head_bytes is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._refusal is None and (self._head_bytes or 0) > MAX_HEAD_BYTES:
            self._refuse(_head_too_large())

    def on_message_begin(self) -> None:
        """The first bytes of a head: the first one's time runs already."""
        super().on_message_begin()
        self._head_bytes = 0
        if self._head_timer is None:
            self._start_waiting()

    def on_headers_complete(self) -> None:
        """The head is whole; how long the body may take is the application's concern."""
        self._stop_waiting()
        self._head_bytes = None
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MAX_HEAD_BYTES:
            raise _head_too_large()  # the parser passes it on as the cause of its own error
        if self.parser.should_upgrade() and _BODY_HEADERS.intersection(name for name, _ in self.headers):
            raise _no_http("no body is read along with a protocol upgrade; set the client to HTTP/1.1, without Upgrade")
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn while it handles the parser's error, whose cause is what one of our callbacks raised."""
        error = sys.exception()
        cause = None if error is None else error.__cause__ or error.__context__
        self._refuse(cause if isinstance(cause, RequestError) else _no_http(str(cause or error or msg)))

    def on_response_complete(self) -> None:
        """An answer has gone out; a refusal that had to wait for it is next."""
        is_last = not self.pipeline
        super().on_response_complete()
        if is_last and self._refusal is not None:
            self._send_refusal(self._refusal)

    def eof_received(self) -> bool:  # type: ignore[override]
        """The client sends nothing more; ``True`` keeps the connection open for what is still to be sent."""
        self._input_has_ended = True
        if self._refusal is not None or self.pipeline:
            return False
        if self._head_bytes is not None or (self.cycle is not None and self.cycle.more_body):
            self._refuse(_no_http("the connection was closed before the request was whole"))
        elif self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
            self.cycle.message_event.set()  # wakes up who watches for a disconnect
            return True
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more will come."""
        self._stop_waiting()
        self.app = self.config.loaded_app  # ours holds this connection, which would then wait for the cycle collector
        super().connection_lost(exc)

    def _start_waiting(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_S, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, error: RequestError) -> None:
        """Read nothing more, and say why as soon as the requests before have their answers."""
        _log.warning("a client is refused: %s", error)
        self._refusal = error
        self._stop_waiting()
        newest = self.cycle
        if newest is None or (newest.response_complete and not newest.more_body):
            self._send_refusal(error)
        elif not newest.more_body:
            pass  # the bad bytes are of a request behind it, and wait for its answer
        elif self.pipeline:
            self.pipeline.popleft()  # its own body is bad, and others are before it
        elif newest.response_started:
            self.transport.close()
        else:
            newest.disconnected = True  # what the application says of half a body is not sent
            newest.message_event.set()
            self._send_refusal(error)

    def _send_refusal(self, error: RequestError) -> None:
        if self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        body = to_json(error_answer(error))
        headers: list[tuple[bytes, bytes]] = [
            *self.server_state.default_headers,
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        lines = [b"%b: %b\r\n" % header for header in headers]
        self.transport.write(b"".join([STATUS_LINE[status_of(error)], *lines, b"\r\n", body]))
        if not self._input_has_ended:
            self.transport.write_eof()
            self.flow.resume_reading()
            self.loop.call_later(LINGER_S, self.transport.close)


def _told_of_half_close(app: ASGIApp, connection: HttpProtocol) -> ASGIApp:
    """``app``, to which the end of the client's sending is a disconnect once the request is whole."""

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        is_whole = False

        async def receive_or_end() -> MutableMapping[str, Any]:
            nonlocal is_whole
            if not (is_whole and connection.input_has_ended):
                message = await receive()
                if not (is_whole and connection.input_has_ended):
                    is_whole = not message.get("more_body", False)
                    return message
            return {"type": "http.disconnect"}

        await app(scope, receive_or_end, send)

    return run


def _head_too_large() -> HeadTooLargeError:
    return HeadTooLargeError(f"the request line and headers may have at most {MAX_HEAD_BYTES} bytes: send less")


def _no_http(reason: str) -> RequestError:
    return RequestError(f"the request is not valid HTTP/1.1: {reason}", code="invalid_http")

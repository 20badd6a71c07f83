"""An answer as an event stream, sent event by event and ended as soon as the client goes away."""

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from pydantic_core import to_json
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from anaphora.errors import AnaphoraError
from anaphora.protocol.sse import encode_event
from anaphora.server.connection import client_gone, until_disconnect
from anaphora.server.errors import error_answer

_log = logging.getLogger(__name__)


class EventStream(Response):
    """Sends encoded events as they come.

    ``first`` was awaited before: a request that fails before it has any output gets a status, not a stream. What fails
    later becomes an event with the error object, and the stream ends without ``[DONE]``.
    """

    media_type = "text/event-stream"

    def __init__(self, first: bytes, rest: AsyncGenerator[bytes, None], headers: Mapping[str, str]) -> None:
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no", **headers})
        del self.headers["content-length"]
        self._first = first
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._rest):
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            try:
                await until_disconnect(receive, self._send_events(send))
                last = b""
            except ClientDisconnect:
                last = _error_event(client_gone())
            except Exception as error:
                if not isinstance(error, AnaphoraError):
                    _log.exception("a stream ended by an unexpected error")
                last = _error_event(error)
            await send({"type": "http.response.body", "body": last, "more_body": False})

    async def _send_events(self, send: Send) -> None:
        await send({"type": "http.response.body", "body": self._first, "more_body": True})
        async for event in self._rest:
            await send({"type": "http.response.body", "body": event, "more_body": True})


def _error_event(error: Exception) -> bytes:
    return encode_event(to_json(error_answer(error)))

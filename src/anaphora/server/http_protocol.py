"""One client connection: uvicorn's, which does not wait for ever for the head of a request."""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_S = 30.0
"""From connecting, or from a later request's first byte, to the end of its head. Idle kept-alive connections have their
own limit. Without this one, clients that send nothing would use up the process' file descriptors."""


class HttpProtocol(HttpToolsProtocol):
    """Closes a connection whose request head does not come in time."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The wait for the first head begins."""
        super().connection_made(transport)
        self._expect_head()

    def on_message_begin(self) -> None:
        """The first bytes of a head: the first one's time runs already."""
        super().on_message_begin()
        if self._head_timer is None:
            self._expect_head()

    def on_headers_complete(self) -> None:
        """The head is whole; how long the body may take is the application's concern."""
        self._stop_waiting()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more will come."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_S, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

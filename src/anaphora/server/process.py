"""The server process: uvicorn over the application, a log line now and then, and an orderly end."""

import asyncio
import logging
import signal
import socket
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from anaphora.server.http_protocol import HttpProtocol
from anaphora.server.listener import url_of

KEEP_ALIVE_S = 75
"""Longer than clients keep idle connections: a client that sends on one just closed by us would see an error."""
GRACE_S = 5.0
"""After the engine has ended its requests, so long may their last bytes take."""
_log = logging.getLogger(__name__)


class ServerProcess(uvicorn.Server):
    """Serves until SIGINT or SIGTERM; then no new request is taken and the running ones may end.

    ``stop_engine`` is called with ``drain_s`` when the end begins, and returns when no request runs any more.
    """

    def __init__(
        self, app: ASGIApp, *, stop_engine: Callable[[float], Awaitable[None]], drain_s: float, access_log: bool
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=HttpProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=access_log,
                proxy_headers=False,  # who is on loopback is decided by the connection alone
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=int(drain_s + GRACE_S),
            )
        )
        self._stop_engine = stop_engine
        self._drain_s = drain_s

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """A second Ctrl-C does not wait. Unlike uvicorn's own way, signals are not raised again afterwards."""
        loop = asyncio.get_running_loop()
        handled = (signal.SIGINT, signal.SIGTERM)
        for sig in handled:
            loop.add_signal_handler(sig, self.handle_exit, sig, None)
        try:
            yield
        finally:
            for sig in handled:
                loop.remove_signal_handler(sig)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so."""
        await super().startup(sockets)
        for listener in sockets or ():
            _log.info("Application startup complete: %s (Ctrl-C ends it)", url_of(listener))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, let requests end within the limit, end the engine."""
        draining = asyncio.ensure_future(self._stop_engine(self._drain_s))
        await super().shutdown(sockets)
        if self.force_exit:
            draining.cancel()
            await self._stop_engine(0.0)  # which ends every request, and so every task
            if self.server_state.tasks:
                await asyncio.wait(self.server_state.tasks, timeout=GRACE_S)
        else:
            await draining

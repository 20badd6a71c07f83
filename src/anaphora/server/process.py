"""The server process: uvicorn over the application, a log line now and then, and an orderly end."""

import asyncio
import logging
import signal
import socket
from collections.abc import Awaitable, Callable, Generator, Iterable
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
    ``tell_ready`` is called when it listens.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        stop_engine: Callable[[float], Awaitable[None]],
        drain_s: float,
        access_log: bool,
        tell_ready: Callable[[], None] | None = None,
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
        self._tell_ready = tell_ready
        self.has_failed = False
        """Whether it ends because of a failure."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """A second Ctrl-C does not wait. Unlike uvicorn's own way, signals are not raised again afterwards."""
        with on_stop_signals(lambda sig: self.handle_exit(sig, None)):
            yield

    async def end_after(self, failure: asyncio.Event) -> None:
        """End once ``failure`` is set: what serves nothing any more should not look alive."""
        await failure.wait()
        if not self.should_exit:
            self.has_failed = True
            self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so."""
        await super().startup(sockets)
        if self._tell_ready is not None:
            self._tell_ready()
        else:
            log_ready(sockets or ())

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


@contextmanager
def on_stop_signals(stop: Callable[[signal.Signals], object]) -> Generator[None, None, None]:
    """Within this, SIGINT and SIGTERM call ``stop`` in the running loop, each time one comes."""
    loop = asyncio.get_running_loop()
    handled = (signal.SIGINT, signal.SIGTERM)
    for sig in handled:
        loop.add_signal_handler(sig, stop, sig)
    try:
        yield
    finally:
        for sig in handled:
            loop.remove_signal_handler(sig)


def log_ready(listeners: Iterable[socket.socket]) -> None:
    """Say that the server serves, and where."""
    for listener in listeners:
        _log.info("Application startup complete: %s (Ctrl-C ends it)", url_of(listener))

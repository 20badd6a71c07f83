"""One front end: the HTTP server and the tokenizer, in a process without torch.

    python -m anaphora.server.frontends.process CHANNEL LISTENER

Both are numbers of inherited file descriptors. The engine's process starts it and says when it is to end: signals from
the keyboard or from whoever ends all processes of a group are that one's concern. When it has gone, so is this one.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import uvloop

from anaphora.engine import EngineClient, RemotePort
from anaphora.errors import AnaphoraError, EngineDeadError
from anaphora.server.app import build_app
from anaphora.server.backend import Backend
from anaphora.server.frontends.asides import RequestLogSetup
from anaphora.server.frontends.control import Control
from anaphora.server.logged_backend import LoggedBackend
from anaphora.server.process import GRACE_S, ServerProcess
from anaphora.server.process_setup import set_up_process, settle_memory
from anaphora.server.traffic_log import TrafficLog, open_log_file
from anaphora.tokenizer.tokenizer import Tokenizer

_log = logging.getLogger(__name__)


class FrontEndProcess(ServerProcess):
    """Ends when it is told to, not by signals."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Nothing to do: :func:`main` has them ignored."""
        yield

    def stop(self, is_urgent: bool) -> None:
        """Begin to end; ``is_urgent``: at once."""
        self.should_exit = True
        self.force_exit = self.force_exit or is_urgent


async def serve(channel: socket.socket, listener: socket.socket) -> None:
    """Serve until told to stop, or until the engine's process has gone.

    Raises:
        AnaphoraError: it cannot begin.
    """
    control = Control()
    port = await RemotePort.connect(channel, control.take)
    control.send = port.send_aside
    lost = asyncio.create_task(_end_when_lost(port, control))
    try:
        setup = await control.setup
        tokenizer = Tokenizer.from_folder(Path(setup.model_folder))  # while the engine loads the weights
        settle_memory()
        await port.welcomed()
        engine = EngineClient(port, tokenizer)
        with _logged(engine, setup.request_log) as backend:
            process = FrontEndProcess(
                build_app(backend, setup.settings, control),
                stop_engine=lambda drain_s: engine.shutdown(drain_s=drain_s),
                drain_s=setup.drain_s,
                access_log=setup.access_log,
                tell_ready=control.tell_listening,
            )
            control.heed_stop(process.stop)
            await process.serve(sockets=[listener])
    finally:
        lost.cancel()
        port.close()


async def _end_when_lost(port: RemotePort, control: Control) -> None:
    """Streams end with an error by themselves; then this process must not stay."""
    await port.is_lost.wait()
    control.lose()
    control.on_stop(False)
    await asyncio.sleep(GRACE_S)
    control.on_stop(True)


@contextmanager
def _logged(engine: EngineClient, setup: RequestLogSetup | None) -> Iterator[Backend]:
    if setup is None:
        yield engine
        return
    log = TrafficLog(open_log_file(Path(setup.path)), setup.rows)
    try:
        yield LoggedBackend(engine, log)
    finally:
        log.close()


def main() -> NoReturn:
    """See the module."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    set_up_process()
    channel, listener = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    code = 1
    with contextlib.suppress(EngineDeadError), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(serve(channel, listener))
            code = 0
        except EngineDeadError:  # said by the engine's process, if it could
            raise
        except AnaphoraError as error:
            _log.error("a front end cannot begin: %s", error)
    sys.exit(code)


if __name__ == "__main__":
    main()

"""One front-end process as the engine's process sees it."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anaphora
from anaphora.engine import EngineHost, RemoteCaller
from anaphora.server.frontends.asides import FromFrontEnd, ToFrontEnd, decode_from_front_end, encode_aside

KILL_AFTER_S = 5.0
"""A process whose channel is lost ends by itself; if it does not within this time, it hangs."""

OnMessage = Callable[["FrontEnd", FromFrontEnd], None]


class FrontEnd:
    """Made by :meth:`spawn`. ``has_served``: whether it has ever listened."""

    def __init__(self, number: int, process: asyncio.subprocess.Process, on_message: OnMessage) -> None:
        self.number = number
        self.has_served = False
        self._process = process
        self._lost = asyncio.Event()
        self._caller = RemoteCaller(lambda payload: on_message(self, decode_from_front_end(payload)), self._lost.set)

    @classmethod
    async def spawn(cls, number: int, listener: socket.socket, on_message: OnMessage) -> "FrontEnd":
        """Start a process that will accept connections on ``listener``, which stays open here as well.

        ``on_message`` is called with what it says beside requests.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "anaphora.server.frontends.process"),
                *map(str, (theirs.fileno(), listener.fileno())),
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), listener.fileno()),
                env=_environment(),
            )
        front_end = cls(number, process, on_message)
        await front_end._caller.connect(ours)
        return front_end

    @property
    def process_id(self) -> int:
        """The operating system's number for it."""
        return self._process.pid

    def tell(self, message: ToFrontEnd) -> None:
        """Say something beside requests; to one that has gone, nothing."""
        self._caller.send_aside(encode_aside(message))

    def welcome(self, host: EngineHost) -> None:
        """The engine is loaded: serve its requests."""
        self._caller.welcome(host)

    async def ended(self) -> str:
        """Wait until the process has ended; how it did. Its requests are aborted by then."""
        await self._lost.wait()
        try:
            async with asyncio.timeout(KILL_AFTER_S):
                code = await self._process.wait()
        except TimeoutError:
            self.kill()
            code = await self._process.wait()
        return f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"

    def kill(self) -> None:
        """End it, whatever it does."""
        if self._process.returncode is None:
            self._process.kill()


def _environment() -> dict[str, str]:
    """Ours, from which the same package is found although the working folder is not searched."""
    package_home = str(Path(anaphora.__file__).parents[1])
    search = [package_home, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(search)}

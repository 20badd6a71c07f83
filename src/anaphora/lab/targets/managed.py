"""A server that the lab starts for a run and always stops: in its own process group, its output in a log file."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from anaphora.errors import TargetError
from anaphora.lab.answers import shorten
from anaphora.lab.targets.openai import OpenAITarget

_POLL_S = 0.2
_STOP_LIMIT_S = 15.0
_KEYS_OF_OTHER_SERVERS = ("ANAPHORA_API_KEY", "ANAPHORA_ADMIN_KEY")


def free_port() -> int:
    """A TCP port of the loopback interface that nothing listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ManagedServer:
    """One server process. Use as ``async with``: it is stopped on every way out, also on Ctrl-C."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.command = tuple(command)
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> "ManagedServer":
        with self._log.open("wb") as output:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                env={name: value for name, value in os.environ.items() if name not in _KEYS_OF_OTHER_SERVERS},
                start_new_session=True,  # Ctrl-C reaches the lab alone, which then stops the server in order
            )
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    async def wait_until_ready(
        self, target: OpenAITarget, *, limit_s: float, on_wait: Callable[[str], None] = lambda _: None
    ) -> None:
        """Wait until the server answers. Raises :class:`TargetError` with its last words if it ends before that."""
        assert self._process is not None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit_s
        while True:
            try:
                return await target.wait_until_ready(limit_s=max(0.0, deadline - loop.time()), on_wait=on_wait)
            except TargetError:
                if self._process.returncode is not None:
                    raise TargetError(
                        f"the server did not start: {self.last_words() or 'it ended without a word'}"
                    ) from None
                if loop.time() > deadline:
                    raise
            on_wait(self.last_words() or "the server is starting")
            await asyncio.sleep(_POLL_S)

    async def stop(self) -> None:
        """Ask the whole process group to end, then make it end. Does nothing the second time."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            self._signal(process, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_LIMIT_S):
                    await process.wait()
        finally:
            self._signal(process, signal.SIGKILL)  # also what the server may have left in its group
        await process.wait()

    @property
    def process_id(self) -> int | None:
        """The server's process while it runs."""
        return None if self._process is None else self._process.pid

    def last_words(self) -> str:
        """The last line of the server's output."""
        lines = self._log.read_text("utf-8", "replace").strip().splitlines()
        return shorten(lines[-1].removeprefix("anaphora: error: ")) if lines else ""

    @staticmethod
    def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)

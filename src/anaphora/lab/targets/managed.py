"""A server that the lab starts for a run and always stops: in its own process group, its output in a log file."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from anaphora.errors import TargetError
from anaphora.lab.answers import shorten
from anaphora.lab.targets.openai import OpenAITarget

_POLL_S = 0.2
_STOP_LIMIT_S = 15.0
_LAST_BREATH_S = 0.5
_KEYS_OF_OTHER_SERVERS = ("ANAPHORA_API_KEY", "ANAPHORA_ADMIN_KEY")


def free_port() -> int:
    """A TCP port of the loopback interface that nothing listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ServerNotStartedError(TargetError):
    """Of a server that was started: it ended, or took too long, before it was ready."""


class ManagedServer:
    """One server process. Use as ``async with``: it is stopped on every way out, also on Ctrl-C."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.command = tuple(command)
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> "ManagedServer":
        with self._log.open("wb") as output:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *self.command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=asyncio.subprocess.STDOUT,
                    env={name: value for name, value in os.environ.items() if name not in _KEYS_OF_OTHER_SERVERS},
                    start_new_session=True,  # Ctrl-C reaches the lab alone, which then stops the server in order
                )
            except OSError as error:
                program, advice = self.command[0], "install it, or give its path in --launch"
                raise TargetError(f"the program {program} cannot be started ({error.strerror}): {advice}") from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it. Raises :class:`TargetError` with its last words where it was not to be reached as it had ended."""
        is_unreached = isinstance(error, TargetError) and not isinstance(error, ServerNotStartedError)
        has_ended = is_unreached and await self._ends_by_itself()
        await self.stop()
        if has_ended:
            raise TargetError(f"the server that was started has ended: {self._said()}") from error

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
                    raise ServerNotStartedError(f"the server did not start: {self._said()}") from None
                if loop.time() > deadline:
                    said = self.last_words() or "nothing"
                    raise ServerNotStartedError(
                        f"the server was not ready after {limit_s:g} s: give it more with --wait (it said last: {said})"
                    ) from None
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

    async def _ends_by_itself(self) -> bool:
        """Whether it has ended, or does now: its port closes a little before it is gone."""
        assert self._process is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_BREATH_S):
                await self._process.wait()
        return self._process.returncode is not None

    def _said(self) -> str:
        return self.last_words() or "it ended without a word"

    @staticmethod
    def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)

"""The sending processes of a stage, seen from the run: started together, begun together, and always ended."""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Sequence

from anaphora.errors import TargetError
from anaphora.lab.load import worker
from anaphora.lab.load.jobs import Job, encode_job
from anaphora.lab.load.record_file import parse_line
from anaphora.lab.load.records import Beat, LoadRecord

_STOP_LIMIT_S = 10.0
_LINE_LIMIT = 64 << 20


class Crew:
    """One process a job. Use as ``async with``: on every way out they are told to abort and, at last, killed."""

    def __init__(self, jobs: Sequence[Job], take: Callable[[LoadRecord | Beat], None]) -> None:
        self._jobs = jobs
        self._take = take
        self._processes: list[asyncio.subprocess.Process] = []
        self._reading: list[asyncio.Task[None]] = []
        self.overflowed = False
        self.failure: str | None = None

    async def __aenter__(self) -> "Crew":
        try:
            for job in self._jobs:
                await self._start(job)
            for process in self._processes:
                await self._expect_ready(process)
        except BaseException:
            await self._end()
            raise
        self._reading = [asyncio.create_task(self._read(process)) for process in self._processes]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.tell(worker.ABORT)
        await self._end()

    def tell(self, words: str) -> None:
        """One line to all: see :mod:`anaphora.lab.load.worker`."""
        for process in self._processes:
            assert process.stdin is not None
            with contextlib.suppress(ConnectionError, RuntimeError):
                process.stdin.write(words.encode() + b"\n")

    @property
    def is_working(self) -> bool:
        """Whether any process still sends."""
        return not all(task.done() for task in self._reading)

    async def finished(self) -> None:
        """Wait until every process has sent all its records."""
        await asyncio.gather(*self._reading)

    async def _start(self, job: Job) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            worker.__name__,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LINE_LIMIT,
            start_new_session=True,  # Ctrl-C reaches the run alone, which then keeps what was measured
        )
        self._processes.append(process)
        assert process.stdin is not None
        process.stdin.write(encode_job(job).encode() + b"\n")
        await process.stdin.drain()

    @staticmethod
    async def _expect_ready(process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode().strip()
        if line != worker.READY:
            raise TargetError(line.removeprefix(worker.FAILED) or "a sending process ended before it began")

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := (await process.stdout.readline()).decode().strip():
            if line == worker.OVERFLOW:
                self.overflowed = True
            elif line.startswith(worker.FAILED):
                self.failure = line.removeprefix(worker.FAILED)
            else:
                value = parse_line(line)
                assert isinstance(value, LoadRecord | Beat)
                self._take(value)

    async def _end(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_LIMIT_S):
                await asyncio.gather(*self._reading)
                for process in self._processes:
                    assert process.stdin is not None
                    process.stdin.close()
                    await process.wait()
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

"""A sending process: its job comes by standard input, its records leave by standard output.

    python -m anaphora.lab.load.worker

Lines in: the job, then ``go NANOSECONDS`` (when to begin, on the machine's monotonic clock), then ``stop`` (finish
what is under way) or ``abort`` (give it up). The end of the input aborts too, so it never outlives whoever started it.
Lines out: ``ready``, then records and beats (:mod:`anaphora.lab.load.records`), then ``overflow`` if it was one.
"""

import asyncio
import contextlib
import sys
import time

from anaphora.errors import AnaphoraError
from anaphora.lab.lag import LoopLag
from anaphora.lab.load.jobs import decode_job
from anaphora.lab.load.loops import Sender
from anaphora.lab.load.record_file import as_line
from anaphora.lab.load.records import Beat
from anaphora.lab.load.streams import Streams

READY, OVERFLOW, GO, STOP, ABORT = "ready", "overflow", "go", "stop", "abort"
FAILED = "failed "
LINE_LIMIT = 1 << 30
_BEAT_S = 1.0


class _Output(asyncio.Protocol):
    """Lines to a pipe, kept in memory while the reader is busy: writing never holds the loop up."""

    def __init__(self) -> None:
        self.closed = asyncio.get_running_loop().create_future()
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set_result(None)

    def write(self, line: str) -> None:
        assert self._transport is not None
        self._transport.write(line.encode() + b"\n")

    async def close(self) -> None:
        assert self._transport is not None
        self._transport.close()
        await self.closed


async def work() -> None:
    """Do the job that standard input holds."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(LINE_LIMIT)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    _, output = await loop.connect_write_pipe(_Output, sys.stdout)
    try:
        await _serve(reader, output)
    except AnaphoraError as error:
        output.write(f"{FAILED}{error}")
    await output.close()


async def _serve(reader: asyncio.StreamReader, output: _Output) -> None:
    job = decode_job(await reader.readline())
    streams = Streams(job.address, job.workload.path, clock=time.monotonic_ns)
    sender = Sender(job, streams, lambda record: output.write(as_line(record)), time.monotonic_ns)
    try:
        await streams.open(job.num_connections)
        output.write(READY)
        word, _, begin_ns = (await reader.readline()).decode().partition(" ")
        if word != GO:
            return
        async with LoopLag(time.monotonic_ns) as lag:
            beats = asyncio.create_task(_beat(sender, lag, output))
            await _send(sender, int(begin_ns), reader)
            beats.cancel()
            await asyncio.gather(beats, return_exceptions=True)
        if sender.overflowed:
            output.write(OVERFLOW)
    finally:
        await streams.close()


async def _send(sender: Sender, begin_ns: int, reader: asyncio.StreamReader) -> None:
    """Run the loops, and meanwhile do what the input says."""
    sending = asyncio.create_task(sender.run(begin_ns))
    listening = asyncio.create_task(_listen(sender, sending, reader))
    with contextlib.suppress(asyncio.CancelledError):
        await sending
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)


async def _listen(sender: Sender, sending: asyncio.Task[None], reader: asyncio.StreamReader) -> None:
    while (await reader.readline()).strip() == STOP.encode():
        sender.stop.set()
    sending.cancel()


async def _beat(sender: Sender, lag: LoopLag, output: _Output) -> None:
    """Tell once a second how busy this process is."""
    job = sender.job
    wall_ns, processor_ns = time.monotonic_ns(), time.process_time_ns()
    while True:
        await asyncio.sleep(_BEAT_S)
        now_ns, spent_ns = time.monotonic_ns(), time.process_time_ns()
        share = (spent_ns - processor_ns) / (now_ns - wall_ns)
        output.write(
            as_line(
                Beat(
                    stage=job.stage,
                    process=job.process,
                    at_ns=now_ns,
                    worst_lag_ns=lag.take_worst_ns(),
                    cpu_share=round(share, 3),
                    num_open=sender.num_open,
                )
            )
        )
        wall_ns, processor_ns = now_ns, spent_ns


if __name__ == "__main__":
    asyncio.run(work())

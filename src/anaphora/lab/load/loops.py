"""The two loops that send: clients that ask again when answered, and requests that are due whatever happens.

The next body is always made before it is due, so that no request waits for its own encoding.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from typing import Any

from anaphora.lab.answers import Answer
from anaphora.lab.clock import Clock
from anaphora.lab.load.jobs import ClosedShare, Job, OpenShare
from anaphora.lab.load.records import LoadRecord
from anaphora.lab.load.streams import Streams
from anaphora.lab.targets.base import Reply

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0


@dataclass(slots=True)
class Sender:
    """One process's sending. ``report`` gets every record; ``stop`` ends the loops once their requests are answered.

    ``overflowed``: an open loop had more requests open than it may, and ended.
    """

    job: Job
    streams: Streams
    report: Callable[[LoadRecord], None]
    clock: Clock
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    num_open: int = 0
    overflowed: bool = False

    async def run(self, begin_ns: int) -> None:
        """Send this job's share, from ``begin_ns`` on the clock, until it is done or stopped."""
        share = self.job.share
        if isinstance(share, ClosedShare):
            await _together([self._client(client, share, begin_ns) for client in share.clients])
        else:
            await self._scheduled(share, begin_ns)

    async def _client(self, client: int, share: ClosedShare, begin_ns: int) -> None:
        number = client
        body = self.job.workload.body(number)
        intended_ns = begin_ns + round(1e9 * share.ramp_s * client / share.num_clients)
        await self._until(intended_ns)
        pause_s = _FIRST_PAUSE_S
        while not self.stop.is_set():
            coming: list[bytes] = []
            following = number + share.num_clients
            # runs as soon as this request was handed to its socket and its coroutine waits
            asyncio.get_running_loop().call_soon(self._prepare, following, coming)
            failed = await self._request(client, number, intended_ns, body)
            intended_ns = self.clock()
            number, body = following, coming[0] if coming else self.job.workload.body(following)
            if failed:  # do not fill a log with a server that is gone
                await self._until(intended_ns + round(1e9 * pause_s))
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            else:
                pause_s = _FIRST_PAUSE_S

    def _prepare(self, number: int, coming: list[bytes]) -> None:
        coming.append(self.job.workload.body(number))

    async def _scheduled(self, share: OpenShare, begin_ns: int) -> None:
        tasks: set[asyncio.Task[bool]] = set()
        try:
            for offset_s, number in share.schedule:
                body = self.job.workload.body(number)
                self.streams.keep_spare()
                intended_ns = begin_ns + round(1e9 * offset_s)
                await self._until(intended_ns)
                self.overflowed = len(tasks) >= share.max_open
                if self.stop.is_set() or self.overflowed:
                    break
                task = asyncio.create_task(self._request(0, number, intended_ns, body))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                await asyncio.sleep(0)  # it sends now, also where the next one is due already
            if not self.overflowed:
                await asyncio.gather(*tasks)
        finally:
            await _cancel(tasks)

    async def _request(self, client: int, number: int, intended_ns: int, body: bytes) -> bool:
        """Send, wait, report; tells whether it failed. A request that is cancelled is reported as abandoned."""
        began_ns = self.clock()
        self.num_open += 1
        try:
            reply = await self.streams.ask(body)
        except asyncio.CancelledError:
            reply = Reply(began_ns, None, self.clock(), False, Answer(error="the run was stopped"))
            self.report(self._record(client, number, intended_ns, reply, abandoned=True))
            raise
        finally:
            self.num_open -= 1
        self.report(self._record(client, number, intended_ns, reply))
        return reply.answer.error is not None

    def _record(
        self, client: int, number: int, intended_ns: int, reply: Reply, *, abandoned: bool = False
    ) -> LoadRecord:
        answer = reply.answer
        return LoadRecord(
            stage=self.job.stage,
            process=self.job.process,
            client=client,
            number=number,
            intended_ns=intended_ns,
            sent_ns=reply.sent_ns,
            first_byte_ns=reply.first_byte_ns,
            end_ns=reply.end_ns,
            token_offsets_ns=tuple(ns - reply.sent_ns for ns in answer.token_events_ns),
            streamed=answer.streamed,
            connection_reused=reply.connection_reused,
            max_tokens=self.job.workload.max_tokens(number),
            usage=answer.usage,
            finish_reason=answer.finish_reason,
            error=answer.error,
            abandoned=abandoned,
        )

    async def _until(self, due_ns: int) -> None:
        """Sleep until that instant, or until the stop."""
        delay_s = (due_ns - self.clock()) / 1e9
        if delay_s > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self.stop.wait()


async def _together(loops: list[Coroutine[Any, Any, None]]) -> None:
    """Run all; where one breaks, or this is cancelled, the others are cancelled and seen to their end."""
    tasks = {asyncio.create_task(loop) for loop in loops}
    try:
        await asyncio.gather(*tasks)
    finally:
        await _cancel(tasks)


async def _cancel(tasks: Collection[asyncio.Task[Any]]) -> None:
    waiting = list(tasks)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)

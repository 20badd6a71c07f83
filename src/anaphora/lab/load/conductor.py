"""Runs one stage: begins it, opens and closes its window, keeps the load up until the measured requests are answered.

A closed loop's window opens when every client has been answered once and the warm-up is over, and closes when its time
is over and every client has been answered in it. An open loop's and a replay's windows are times of the schedule. No
request within the window sees the load rise or fall.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from anaphora.lab.clock import Clock
from anaphora.lab.load import worker
from anaphora.lab.load.crew import Crew
from anaphora.lab.load.jobs import Job
from anaphora.lab.load.records import INTERRUPTED, Beat, LoadRecord, Stage, Window
from anaphora.lab.load.tally import Pacing, Tally
from anaphora.traces.records import CounterReading

_LEAD_NS = 100_000_000
_TICK_S = 0.02


class Watcher(Protocol):
    """Told what happens in a stage, for people to watch."""

    def seen(self, record: LoadRecord) -> None:
        """A request was answered, or failed."""
        ...

    def elapsed(self, seconds: float, phase: str) -> None:
        """So long since the stage began; ``phase``: warm-up, measuring or cool-down. Comes often."""
        ...


@dataclass(slots=True)
class Conductor:
    """``write`` gets every record and beat at once. ``read_counters``: the cache counters of the stage's server."""

    write: Callable[[LoadRecord | Beat | Window], None]
    read_counters: Callable[[], Awaitable[CounterReading | None]]
    watcher: Watcher
    clock: Clock = time.monotonic_ns

    async def run(self, stage: Stage, jobs: Sequence[Job], pacing: Pacing) -> Window:
        """Run a stage from end to end and write its window, also where it is cut short."""
        tally = Tally.of(stage, jobs)
        before = await self.read_counters()
        stopped: str | None = INTERRUPTED

        def take(value: LoadRecord | Beat) -> None:
            self.write(value)
            if isinstance(value, LoadRecord):
                tally.take(value)
                self.watcher.seen(value)

        try:
            async with Crew(jobs, take) as crew:
                stopped = await self._conduct(crew, tally, pacing)
                crew.tell(worker.ABORT if stopped else worker.STOP)
                await crew.finished()
            after = await self.read_counters()
        except BaseException:
            self.write(self._window(tally, before, None, stopped))
            raise
        window = self._window(tally, before, after, stopped)
        self.write(window)
        return window

    async def _conduct(self, crew: Crew, tally: Tally, pacing: Pacing) -> str | None:
        """Until the load may end; tells why, if that is before its time."""
        start_ns = tally.start_ns = self.clock() + _LEAD_NS
        crew.tell(f"{worker.GO} {start_ns}")
        is_closed = tally.num_clients is not None
        if not is_closed:
            tally.set_window(pacing)
        num_due = tally.num_due
        last_due_ns = max(tally.due_times_ns, default=start_ns)
        while crew.is_working:
            if tally.has_only_failures:
                return f"{tally.failures_in_a_row} requests in a row failed, the last with: {tally.last_error}"
            now_ns = self.clock()
            self.watcher.elapsed((now_ns - start_ns) / 1e9, tally.phase(now_ns))
            if is_closed:
                tally.move_window(now_ns, pacing)
                if len(tally.after_window) == tally.num_clients:
                    tally.load_until_ns = now_ns
                    return None
            elif tally.num_in_window >= (num_due or 0) and now_ns >= (tally.end_ns or 0):
                tally.load_until_ns = min(now_ns, last_due_ns)
                return None
            await asyncio.sleep(_TICK_S)
        tally.load_until_ns = min(self.clock(), last_due_ns)
        if crew.overflowed:
            return "more requests were open at once than the client can time truly: the server fell behind the load"
        return crew.failure

    def _window(
        self,
        tally: Tally,
        before: CounterReading | None,
        after: CounterReading | None,
        stopped: str | None,
    ) -> Window:
        """What of the stage counts. Where it was cut short within its window, the window ends there."""
        if stopped is not None:
            tally.cut_window(self.clock())
        has_window = tally.begin_ns is not None and tally.end_ns is not None
        return Window(
            stage=tally.stage.number,
            begin_ns=tally.begin_ns if has_window else None,
            end_ns=tally.end_ns if has_window else None,
            num_due=tally.num_due,
            load_until_ns=tally.load_until_ns,
            counters_before=before,
            counters_after=after,
            stopped=stopped,
        )

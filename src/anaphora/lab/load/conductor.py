"""Runs one stage: begins it, opens and closes its window, keeps the load up until the measured requests are answered.

A closed loop's window opens when every client has been answered once and the warm-up is over, and closes when its time
is over and every client has been answered in it. An open loop's and a replay's windows are times of the schedule. No
request within the window sees the load rise or fall.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from anaphora.lab.clock import Clock
from anaphora.lab.load import worker
from anaphora.lab.load.crew import Crew
from anaphora.lab.load.jobs import ClosedShare, Job, OpenShare
from anaphora.lab.load.records import Beat, LoadRecord, Stage, Window
from anaphora.traces.records import CounterReading

_LEAD_NS = 100_000_000
_TICK_S = 0.02
_MIN_FAILURES = 8


@dataclass(frozen=True, slots=True)
class Pacing:
    """``num_requests``: a closed loop's window also ends when so many of its requests were answered."""

    warmup_s: float
    window_s: float
    num_requests: int | None = None


class Watcher(Protocol):
    """Told what happens in a stage, for people to watch."""

    def seen(self, record: LoadRecord) -> None:
        """A request was answered, or failed."""
        ...

    def elapsed(self, seconds: float, phase: str) -> None:
        """So long since the stage began; ``phase``: warm-up, measuring or cool-down. Comes often."""
        ...


@dataclass(slots=True)
class Tally:
    """What is known of a stage while it runs."""

    stage: Stage
    num_clients: int | None
    """``None``: no closed loop."""
    answered: set[int] = field(default_factory=set)
    """Clients that were answered at least once."""
    in_window: set[int] = field(default_factory=set)
    """Clients that were answered a request that was due in the window."""
    after_window: set[int] = field(default_factory=set)
    """Clients that were answered after the window's end: what they had under way in it is over."""
    start_ns: int = 0
    """When the stage's first request is due at the earliest."""
    begin_ns: int | None = None
    end_ns: int | None = None
    load_until_ns: int | None = None
    num_in_window: int = 0
    failures_in_a_row: int = 0
    last_error: str = ""

    def take(self, record: LoadRecord) -> None:
        """One more record."""
        self.answered.add(record.client)
        if self.begin_ns is not None and record.intended_ns >= self.begin_ns:
            self.in_window.add(record.client)
            self.num_in_window += self.end_ns is None or record.intended_ns < self.end_ns
        if self.end_ns is not None and record.end_ns >= self.end_ns:
            self.after_window.add(record.client)
        if not record.abandoned:
            self.failures_in_a_row = self.failures_in_a_row + 1 if record.error else 0
            self.last_error = record.error or self.last_error

    @property
    def has_only_failures(self) -> bool:
        """Whether so many requests failed in a row that nothing more is to be hoped for."""
        return self.failures_in_a_row >= max(_MIN_FAILURES, 2 * (self.num_clients or 0))


@dataclass(slots=True)
class Conductor:
    """``write`` gets every record and beat at once. ``read_counters``: the cache counters of the stage's server."""

    write: Callable[[LoadRecord | Beat | Window], None]
    read_counters: Callable[[], Awaitable[CounterReading | None]]
    watcher: Watcher
    clock: Clock = time.monotonic_ns

    async def run(self, stage: Stage, jobs: Sequence[Job], pacing: Pacing) -> Window:
        """Run a stage from end to end and write its window, also where it is cut short."""
        tally = Tally(stage, _num_clients(jobs))
        before = await self.read_counters()
        stopped: str | None = "the run was stopped"

        def take(value: LoadRecord | Beat) -> None:
            self.write(value)
            if isinstance(value, LoadRecord):
                tally.take(value)
                self.watcher.seen(value)

        try:
            async with Crew(jobs, take) as crew:
                stopped = await self._conduct(crew, tally, jobs, pacing)
                crew.tell(worker.ABORT if stopped else worker.STOP)
                await crew.finished()
            after = await self.read_counters()
        except BaseException:
            self.write(self._window(tally, jobs, before, None, stopped))
            raise
        window = self._window(tally, jobs, before, after, stopped)
        self.write(window)
        return window

    async def _conduct(self, crew: Crew, tally: Tally, jobs: Sequence[Job], pacing: Pacing) -> str | None:
        """Until the load may end; tells why, if that is before its time."""
        start_ns = tally.start_ns = self.clock() + _LEAD_NS
        crew.tell(f"{worker.GO} {start_ns}")
        is_closed = tally.num_clients is not None
        if not is_closed:
            tally.begin_ns = start_ns + round(1e9 * pacing.warmup_s)
            tally.end_ns = tally.begin_ns + round(1e9 * pacing.window_s)
        num_due = _num_due(jobs, tally)
        last_due_ns = max(_due_times(jobs, tally), default=start_ns)
        while crew.is_working:
            if tally.has_only_failures:
                return f"{tally.failures_in_a_row} requests in a row failed, the last with: {tally.last_error}"
            now_ns = self.clock()
            self.watcher.elapsed((now_ns - start_ns) / 1e9, _phase(tally, now_ns))
            if is_closed:
                self._move_closed(tally, start_ns, now_ns, pacing)
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
        jobs: Sequence[Job],
        before: CounterReading | None,
        after: CounterReading | None,
        stopped: str | None,
    ) -> Window:
        """What of the stage counts. Where it was cut short within its window, the window ends there."""
        now_ns = self.clock()
        if stopped is not None and tally.begin_ns is not None:
            tally.end_ns = min(tally.end_ns or now_ns, tally.load_until_ns or now_ns)
            if tally.end_ns <= tally.begin_ns:
                tally.begin_ns = None
        has_window = tally.begin_ns is not None and tally.end_ns is not None
        return Window(
            stage=tally.stage.number,
            begin_ns=tally.begin_ns if has_window else None,
            end_ns=tally.end_ns if has_window else None,
            num_due=_num_due(jobs, tally),
            load_until_ns=tally.load_until_ns,
            counters_before=before,
            counters_after=after,
            stopped=stopped,
        )

    @staticmethod
    def _move_closed(tally: Tally, start_ns: int, now_ns: int, pacing: Pacing) -> None:
        """Open or close the window of a closed loop, where it is time."""
        if tally.begin_ns is None:
            if len(tally.answered) == tally.num_clients and now_ns >= start_ns + 1e9 * pacing.warmup_s:
                tally.begin_ns = now_ns
        elif tally.end_ns is None:
            enough = pacing.num_requests is not None and tally.num_in_window >= pacing.num_requests
            is_over = enough or now_ns >= tally.begin_ns + 1e9 * pacing.window_s
            if is_over and len(tally.in_window) == tally.num_clients:
                tally.end_ns = now_ns


def _num_clients(jobs: Sequence[Job]) -> int | None:
    shares = [job.share for job in jobs]
    return sum(len(share.clients) for share in shares if isinstance(share, ClosedShare)) or None


def _due_times(jobs: Sequence[Job], tally: Tally) -> list[int]:
    shares = [job.share for job in jobs]
    offsets = [offset for share in shares if isinstance(share, OpenShare) for offset, _ in share.schedule]
    return [tally.start_ns + round(1e9 * offset) for offset in offsets]


def _num_due(jobs: Sequence[Job], tally: Tally) -> int | None:
    """Requests that the schedule has in the window; ``None`` in a closed loop, and without a window."""
    if tally.num_clients is not None or tally.begin_ns is None or tally.end_ns is None:
        return None
    return sum(tally.begin_ns <= due_ns < tally.end_ns for due_ns in _due_times(jobs, tally))


def _phase(tally: Tally, now_ns: int) -> str:
    if tally.begin_ns is None or now_ns < tally.begin_ns:
        return "warm-up"
    return "measuring" if tally.end_ns is None or now_ns < tally.end_ns else "cool-down"

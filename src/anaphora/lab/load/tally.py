"""What is known of a stage while it runs, and when its window opens and closes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from anaphora.lab.load.jobs import ClosedShare, Job, OpenShare
from anaphora.lab.load.records import LoadRecord, Stage

_MIN_FAILURES = 8


@dataclass(frozen=True, slots=True)
class Pacing:
    """``num_requests``: a closed loop's window also ends when so many of its requests were answered."""

    warmup_s: float
    window_s: float
    num_requests: int | None = None


@dataclass(slots=True)
class Tally:
    """What is known of a stage while it runs."""

    stage: Stage
    num_clients: int | None
    """``None``: no closed loop."""
    due_offsets_s: Sequence[float]
    """When requests are due after the start; empty in a closed loop."""
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

    @staticmethod
    def of(stage: Stage, jobs: Sequence[Job]) -> "Tally":
        """Of a stage that has not begun."""
        shares = [job.share for job in jobs]
        num_clients = sum(len(share.clients) for share in shares if isinstance(share, ClosedShare)) or None
        offsets = [offset for share in shares if isinstance(share, OpenShare) for offset, _ in share.schedule]
        return Tally(stage, num_clients, offsets)

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

    @property
    def due_times_ns(self) -> list[int]:
        """When requests are due; none in a closed loop."""
        return [self.start_ns + round(1e9 * offset) for offset in self.due_offsets_s]

    @property
    def num_due(self) -> int | None:
        """Requests that the schedule has in the window; ``None`` in a closed loop, and without a window."""
        if self.num_clients is not None or self.begin_ns is None or self.end_ns is None:
            return None
        return sum(self.begin_ns <= due_ns < self.end_ns for due_ns in self.due_times_ns)

    def set_window(self, pacing: Pacing) -> None:
        """The window of an open loop: times of the schedule."""
        self.begin_ns = self.start_ns + round(1e9 * pacing.warmup_s)
        self.end_ns = self.begin_ns + round(1e9 * pacing.window_s)

    def move_window(self, now_ns: int, pacing: Pacing) -> None:
        """Open or close the window of a closed loop, where it is time."""
        if self.begin_ns is None:
            if len(self.answered) == self.num_clients and now_ns >= self.start_ns + 1e9 * pacing.warmup_s:
                self.begin_ns = now_ns
        elif self.end_ns is None:
            enough = pacing.num_requests is not None and self.num_in_window >= pacing.num_requests
            is_over = enough or now_ns >= self.begin_ns + 1e9 * pacing.window_s
            if is_over and len(self.in_window) == self.num_clients:
                self.end_ns = now_ns

    def cut_window(self, now_ns: int) -> None:
        """The stage was cut short: a window that was open ends here, and one of no length is none."""
        if self.begin_ns is None:
            return
        self.end_ns = min(self.end_ns or now_ns, self.load_until_ns or now_ns)
        if self.end_ns <= self.begin_ns:
            self.begin_ns = None

    def phase(self, now_ns: int) -> str:
        """Warm-up, measuring or cool-down."""
        if self.begin_ns is None or now_ns < self.begin_ns:
            return "warm-up"
        return "measuring" if self.end_ns is None or now_ns < self.end_ns else "cool-down"

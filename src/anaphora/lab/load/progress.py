"""Progress of a load run for people: a bar over the time of all stages on a terminal, a line a stage elsewhere."""

from collections import deque

from rich.console import Console

from anaphora.lab.load.levels import level_name
from anaphora.lab.load.planning import LoadPlan
from anaphora.lab.load.records import LoadRecord, Stage
from anaphora.lab.load.timings import ttft_ms
from anaphora.lab.progress import duration
from anaphora.lab.progress_bar import ProgressBar
from anaphora.lab.report.words import ms
from anaphora.lab.statistics import median

_RECENT = 64


class LoadProgress(ProgressBar):
    """A :class:`~anaphora.lab.load.run.Observer`."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._num_stages = self._num_begun = 0
        self._stage_s = 1.0
        self._num_seen = self._num_failed = 0
        self._name = ""

    def stop(self) -> None:
        """Tell how the last stage went, and give the terminal back."""
        self._summarise()
        super().stop()

    def planned(self, plan: LoadPlan) -> None:
        """The bar's whole length is the time of all stages without their drain."""
        self._num_stages, self._num_begun = len(plan.stages), 0
        self._stage_s = plan.pacing.warmup_s + plan.pacing.window_s
        self._bar.reset(self._task, total=self._num_stages * self._stage_s, count="")
        long = duration(self._num_stages * self._stage_s)
        stages = "1 stage" if self._num_stages == 1 else f"{self._num_stages} stages"
        self.note(f"{stages}, at most about {long} and what the last answers of each take")

    def begins(self, stage: Stage) -> None:
        """A stage begins."""
        self._summarise()
        self._num_begun += 1
        self._name = f"{level_name(stage.loop, stage.level)}, caching {stage.arm}"
        self._num_seen = self._num_failed = 0
        self._recent.clear()

    def seen(self, record: LoadRecord) -> None:
        """One more answer."""
        self._num_seen += not record.abandoned
        if record.error is not None and not record.abandoned:
            self._num_failed += 1
            if self._num_failed == 1:
                self.note(f"{self._name}: a request failed: {record.error}")
        value = ttft_ms(record)
        if value is not None:
            self._recent.append(value)

    def elapsed(self, seconds: float, phase: str) -> None:
        """The bar moves on."""
        done = (self._num_begun - 1) * self._stage_s + min(max(0.0, seconds), self._stage_s)
        self._bar.update(
            self._task,
            completed=done,
            description=f"{self._name}: {phase}{self._estimate()}",
            count=f"{self._num_begun}/{self._num_stages}",
        )

    def _estimate(self) -> str:
        return f", TTFT now {ms(median(list(self._recent)))} ms" if self._recent else ""

    def _summarise(self) -> None:
        if self._num_seen:
            failed = f", {self._num_failed} failed" if self._num_failed else ""
            line = f"{self._num_begun}/{self._num_stages}  {self._name}: {self._num_seen} answers"
            self.note(f"{line}{failed}{self._estimate()}")
            self._num_seen = 0

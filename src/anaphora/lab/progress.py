"""Progress for people: a bar with the current estimate on a terminal, one plain line a request elsewhere."""

from collections.abc import Sequence

from rich.console import Console

from anaphora.lab.arms import Trial
from anaphora.lab.experiments.summary import of_arm
from anaphora.lab.group_names import group_name
from anaphora.lab.progress_bar import ProgressBar
from anaphora.lab.report.words import ms, signed_percent
from anaphora.lab.statistics import median, reduction_percent
from anaphora.lab.timings import e2e_ms, ttft_ms
from anaphora.lab.witnesses import cached_tokens
from anaphora.traces.records import RequestRecord


class Progress(ProgressBar):
    """An :class:`~anaphora.lab.runner.Observer`."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, fields=("left", "so_far"))
        self._measured: list[RequestRecord] = []
        self._costs: list[float] = []
        self._num_trials = self._num_done = 0

    def watch(self, text: str) -> None:
        """What goes on: beside the bar only, since it changes all the time."""
        self._bar.update(self._task, description=text)

    def planned(self, trials: Sequence[Trial], costs_s: Sequence[float] | None) -> None:
        """The bar's whole length is the expected time."""
        self._costs = list(costs_s or [1.0] * len(trials))
        self._num_trials = len(trials)
        self._bar.reset(self._task, total=sum(self._costs), count=f"0/{len(trials)}", left="", so_far="")
        how_long = (
            "" if costs_s is None else f"; about {duration(sum(costs_s))} at the pace of the warm-up, or a little more"
        )
        self.note(f"{len(trials)} requests to measure{how_long}")

    def measured(self, record: RequestRecord) -> None:
        """One more request."""
        if record.phase == "warmup":
            self.waiting("warming up")
            return
        cost = self._costs[self._num_done]
        self._num_done += 1
        self._measured.append(record)
        line = describe(record)
        self._bar.update(
            self._task,
            advance=cost,
            description=line,
            count=f"{self._num_done}/{self._num_trials}",
            left=self._left(),
            so_far=estimate([one for one in self._measured if _place(one) == _place(record)]),
        )
        if not self._console.is_terminal or record.error is not None:
            self.note(f"{self._num_done}/{self._num_trials}  {line}")

    def _left(self) -> str:
        task = self._bar.tasks[0]
        done = sum(self._costs[: self._num_done])
        if not task.elapsed or not done:
            return ""
        return f"about {duration(task.elapsed / done * sum(self._costs[self._num_done :]))} left"


def estimate(records: Sequence[RequestRecord]) -> str:
    """What the requests of one place say so far: the median times to first token of both arms, and the change."""
    off, on = (
        median([time for record in of_arm(records, arm) if (time := ttft_ms(record)) is not None])
        for arm in ("off", "on")
    )
    change = reduction_percent(off, on)
    return "" if change is None else f"so far {ms(off)} → {ms(on)} ms ({signed_percent(change)})"


def _place(record: RequestRecord) -> tuple[str, str]:
    return record.experiment, group_name(record)


def describe(record: RequestRecord) -> str:
    """One request in one line."""
    number = "first" if record.phase == "first" else record.index
    name = f"{record.experiment} {group_name(record)} {record.arm:<3} {number}"
    if record.error is not None:
        return f"{name}: failed: {record.error}"
    cached = cached_tokens(record)
    hit = "" if cached is None else f", {cached} tokens cached"
    return f"{name}: TTFT {ms(ttft_ms(record))} ms, E2E {ms(e2e_ms(record))} ms{hit}"


def duration(seconds: float) -> str:
    """For people: seconds, or minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"

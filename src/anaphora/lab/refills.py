"""What a cache held is put there again, where the server that held it is another process by now."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from anaphora.lab.arms import Trial
from anaphora.lab.targets.base import ChatRequest
from anaphora.traces.records import Arm


def refills(before: Iterable[Trial], after: Iterable[Trial]) -> list[Trial]:
    """The on-requests of ``before`` once more, of those experiments that go on: warm-ups, which are in no statistic."""
    unfinished = {trial.experiment for trial in after}
    sent: dict[str, Trial] = {}
    for trial in before:
        if trial.arm == "on" and trial.phase != "warmup" and trial.experiment in unfinished:
            sent.setdefault(_text(trial.request), trial)
    return [refill(trial, label="refill", reset_before=False) for trial in sent.values()]


def refill(trial: Trial, *, label: str, reset_before: bool) -> Trial:
    """The trial's prompt once more, to be put into the cache: one token, and no part of any statistic."""
    request = replace(trial.request, max_tokens=1)
    return replace(trial, experiment="warmup", phase="warmup", label=label, request=request, reset_before=reset_before)


def with_restarts(trials: Sequence[Trial], warmups: Mapping[Arm, Sequence[Trial]]) -> list[Trial]:
    """The trials in their order. A server is started wherever the arm changes: there its warm-ups come first and, for
    the on arm, what fills the cache again."""
    order: list[Trial] = []
    num_done = 0
    for arm, members in groupby(trials, key=lambda trial: trial.arm):
        block = list(members)
        if num_done:
            order += warmups[arm]
            order += refills(trials[:num_done], block) if arm == "on" else []
        order += block
        num_done += len(block)
    return order


def _text(request: ChatRequest) -> str:
    return repr((request.messages, request.tools))

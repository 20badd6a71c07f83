"""Going on with a run that was cut short: the same plan again, and of it what was not sent yet."""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from anaphora.errors import ConfigError
from anaphora.lab.arms import Trial
from anaphora.lab.planning import Plan
from anaphora.lab.refills import refills
from anaphora.lab.runner import MAX_FAILURES_IN_A_ROW, Expected
from anaphora.traces.records import RequestRecord, Run, RunHeader, read_run

_MAY_DIFFER = ("mechanism_proof", "wait_s", "command")
_SAME_TARGET = ("kind", "model", "version", "max_model_len")


def read_unfinished(folder: Path) -> Run:
    """The run in that folder. Raises :class:`ConfigError` if nothing of it is left to do, and what
    :func:`~anaphora.traces.records.read_run` raises."""
    run = read_run(folder)
    num_sent = len(done_of(run))
    if num_sent >= run.header.num_planned_requests:
        raise ConfigError(f"the run is complete ({num_sent} requests): there is nothing to resume")
    return run


def done_of(run: Run) -> list[RequestRecord]:
    """The measured requests that need not be sent again: all but those that failed one after another, as when the
    server is gone, and so cut the run short."""
    measured = [record for record in run.requests if record.phase != "warmup"]
    num_good = next((n for n in range(len(measured), 0, -1) if measured[n - 1].error is None), 0)
    return measured[:num_good] if len(measured) - num_good >= MAX_FAILURES_IN_A_ROW else measured


def rest_of(plan: Plan, run: Run, header: RunHeader) -> Plan:
    """The part of the plan that ``run`` lacks. What its on-requests left in the cache is put there again first, as
    further warm-ups: the server may be another process by now.

    ``header`` is what the same command would write now. Raises :class:`ConfigError` where settings or target are not
    those of the run.
    """
    expect_same_settings(run.header.settings, header.settings)
    expect_same_target(run.header.target, header.target)
    done = [_place(record) for record in done_of(run)]
    counted = [number for number, trial in enumerate(plan.trials) if trial.phase != "warmup"]
    if done != [_place(plan.trials[number]) for number in counted[: len(done)]]:
        raise ConfigError("the run's requests are not those of this plan: it cannot be resumed")
    num_sent = counted[len(done) - 1] + 1 if done else 0
    again = refills(plan.trials[:num_sent], plan.trials[num_sent:])
    return dataclasses.replace(
        plan,
        warmups=[*again, *plan.warmups],
        expected_warmups=[*(Expected() for _ in again), *plan.expected_warmups],
        trials=[_unseen(trial, len(done)) for trial in plan.trials[num_sent:]],
        expected=plan.expected[num_sent:],
    )


def expect_same_settings(stored: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raises :class:`ConfigError` with the first setting that is not as it was; what may differ is left out."""
    _expect_same("setting", stored, _as_read(now), [name for name in now if name not in _MAY_DIFFER])


def expect_same_target(stored: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """The same of the server that is asked."""
    _expect_same("target's", stored, _as_read(now), _SAME_TARGET)


def _unseen(trial: Trial, num_done: int) -> Trial:
    """An off-request may have been on its way when the run was cut short: a salt of its own makes it miss again."""
    salt = trial.request.cache_salt
    if trial.arm == "on" or salt is None:
        return trial
    return dataclasses.replace(trial, request=dataclasses.replace(trial.request, cache_salt=f"{salt}-{num_done}"))


def _place(one: RequestRecord | Trial) -> tuple[str, str, int, int, str]:
    return (one.experiment, one.arm, one.group, one.index, one.label)


def _as_read(value: Mapping[str, Any]) -> dict[str, Any]:
    return dict(json.loads(json.dumps(value)))


def _expect_same(what: str, stored: Mapping[str, Any], now: Mapping[str, Any], names: Sequence[str]) -> None:
    for name in names:
        for path, was, value in _differences(name, stored.get(name), now.get(name)):
            raise ConfigError(f"the {what} {path} was {was!r} and is {value!r}: resume with the run's command")


def _differences(path: str, was: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    """What is not the same, by its path; tables that have other keys are told by their keys."""
    if not isinstance(was, Mapping) or not isinstance(now, Mapping):
        if was != now:
            yield path, was, now
    elif list(was) != list(now):
        yield path, ", ".join(was), ", ".join(now)
    else:
        for key in was:
            yield from _differences(f"{path}.{key}", was[key], now[key])

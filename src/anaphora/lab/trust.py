"""Whether a run's numbers can be trusted: checks that are made from its records, each with what was seen."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from anaphora.lab import arm_checks, time_checks
from anaphora.lab.arms import Mechanism
from anaphora.lab.check import Check
from anaphora.lab.drift import check_drift
from anaphora.lab.experiments.registry import EXPERIMENTS
from anaphora.lab.prediction import block_size_of
from anaphora.lab.witnesses import cached_tokens
from anaphora.traces.records import RequestRecord, Run

_ENOUGH_FOR_95_PERCENT = 6


def checks(run: Run) -> list[dict[str, Any]]:
    """All checks, in the order in which a doubting reader asks."""
    records = [record for record in run.requests if record.phase != "warmup"]
    good = [record for record in records if record.error is None]
    on = [record for record in good if record.arm == "on"]
    told_off = [cached_tokens(record) for record in good if record.arm == "off"]
    settings, environment = run.header.settings, run.header.environment
    answers = (
        _complete(run, records),
        arm_checks.off_missed(Mechanism(settings["mechanism"]), told_off),
        arm_checks.on_hit([record for record in on if record.phase == "measured"]),
        arm_checks.witnesses(on, block_size_of(run.header.target["cache_settings"])),
        arm_checks.counters(good),
        arm_checks.equal_prompts(good),
        arm_checks.equal_answers(good),
        time_checks.streamed(good),
        time_checks.first_wave(good),
        time_checks.server_times(good),
        time_checks.warm_connections(records),
        time_checks.client_lag(good),
        time_checks.quiet_machine(environment),
        _enough_samples(records),
        check_drift(records),
        *_of_experiments(records, int(settings["seed"])),
        time_checks.client_error(environment),
    )
    return [asdict(answer) for answer in answers if answer is not None]


def _of_experiments(records: Sequence[RequestRecord], seed: int) -> list[Check]:
    """What single experiments are asked beside."""
    return [
        check
        for name, experiment in EXPERIMENTS.items()
        if (own := [record for record in records if record.experiment == name])
        for check in experiment.checks(own, seed)
    ]


def _complete(run: Run, records: Sequence[RequestRecord]) -> Check:
    planned, failed = run.header.num_planned_requests, sum(record.error is not None for record in records)
    seen = f"{len(records)} of {planned} planned requests were sent, {failed} of them failed"
    if run.resumed:
        seen += f"; cut short and resumed after {', '.join(str(one.after) for one in run.resumed)}"
    return Check("complete", "ok" if len(records) == planned and not failed else "warning", seen)


def _enough_samples(records: Sequence[RequestRecord]) -> Check:
    sizes: dict[tuple[str, str, int], int] = {}
    for record in records:
        if record.phase == "measured" and record.error is None:
            key = (record.experiment, record.arm, record.group)
            sizes[key] = sizes.get(key, 0) + 1
    least = min(sizes.values(), default=0)
    if least >= _ENOUGH_FOR_95_PERCENT:
        return Check("enough samples", "ok", f"at least {least} a cell; intervals are at 95%")
    if least < 2:
        return Check("enough samples", "warning", f"as few as {least} a cell: there is no interval")
    level = (1 - 2.0 ** (1 - least)) * 100
    return Check("enough samples", "warning", f"as few as {least} a cell: such an interval is a range at {level:g}%")

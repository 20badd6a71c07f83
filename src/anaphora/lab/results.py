"""From records to results: a pure function, so that a report can be made again and comes out the same."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from anaphora.lab import trust
from anaphora.lab.bills import money_of
from anaphora.lab.experiments.registry import EXPERIMENTS
from anaphora.lab.group_names import group_name
from anaphora.lab.prediction import block_size_of
from anaphora.lab.witnesses import disagreements, gaps, shares
from anaphora.traces.records import Arm, RequestRecord, Run


def results_of(run: Run) -> dict[str, Any]:
    """What ``results.json`` holds. Experiments of which nothing was measured yet are absent."""
    seed = int(run.header.settings["seed"])
    by_experiment: dict[str, list[RequestRecord]] = {}
    for record in run.requests:
        by_experiment.setdefault(record.experiment, []).append(record)
    experiments = {
        name: experiment.analyse(by_experiment[name], seed=seed)
        for name, experiment in EXPERIMENTS.items()
        if name in by_experiment
    }
    return {
        "run": {
            "run_id": run.header.run_id,
            "started_at": run.header.started_at,
            "num_planned_requests": run.header.num_planned_requests,
            "num_requests": sum(record.phase != "warmup" for record in run.requests),
            "settings": dict(run.header.settings),
        },
        "target": dict(run.header.target),
        "experiments": experiments,
        "witnesses": _witnesses(run),
        "money": money_of(run.requests, run.header.target.get("prices")),
        "trust": trust.checks(run),
        "errors": _errors(run.requests),
        "environment": dict(run.header.environment),
    }


def _witnesses(run: Run) -> dict[str, Any]:
    """Cached tokens of so many by experiment, arm and witness, and every request on which the witnesses part."""
    records = [record for record in run.requests if record.phase != "warmup"]
    cells: dict[tuple[str, Arm], list[RequestRecord]] = {}
    for record in records:
        cells.setdefault((record.experiment, record.arm), []).append(record)
    block_size = block_size_of(run.header.target["cache_settings"])
    return {
        "arms": [
            {"experiment": experiment, "arm": arm, **shares(members), "gaps": gaps(members, block_size=block_size)}
            for (experiment, arm), members in sorted(cells.items())
        ],
        "disagreements": [asdict(one) for one in disagreements(records, block_size=block_size)],
    }


def _errors(records: Sequence[RequestRecord]) -> list[dict[str, Any]]:
    return [
        {"experiment": r.experiment, "arm": r.arm, "group": group_name(r), "index": r.index, "error": r.error}
        for r in records
        if r.error is not None
    ]

"""From a load run's records to its results: a pure function, so that a report comes out the same again."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from anaphora.lab.bills import RawUsage, bills_of
from anaphora.lab.load.analysis import analyse
from anaphora.lab.load.cells import accepted
from anaphora.lab.load.levels import level_name
from anaphora.lab.load.records import LoadRun
from anaphora.lab.load.steady import Steady, steady_stages
from anaphora.lab.load.trust import checks
from anaphora.lab.load.witnesses import witnesses_of


def results_of(run: LoadRun) -> dict[str, Any]:
    """What ``results.json`` holds."""
    load = analyse(run)
    stages = steady_stages(run.header.stages, run.windows, run.requests, run.beats)
    witnesses = witnesses_of(run, stages)
    return {
        "run": {
            "run_id": run.header.run_id,
            "started_at": run.header.started_at,
            "num_planned_stages": len(run.header.stages),
            "num_stages": len(run.windows),
            "num_requests": len(run.requests),
            "resumed": [asdict(one) for one in run.resumptions],
            "settings": dict(run.header.settings),
        },
        "target": dict(run.header.target),
        "load": load,
        "witnesses": witnesses,
        "money": _money(run, stages),
        "trust": checks(run, load, witnesses),
        "errors": _errors(load),
        "environment": dict(run.header.environment),
    }


def _money(run: LoadRun, stages: Sequence[Steady]) -> dict[str, Any] | None:
    """A row a level, over the on-requests within its windows."""
    by_level: dict[str, list[RawUsage]] = {}
    for one in sorted(accepted(stages), key=lambda one: one.stage.level):
        if one.stage.arm == "on":
            usages = [record.usage for record in one.measured() if record.error is None]
            by_level.setdefault(level_name(one.stage.loop, one.stage.level), []).extend(usages)
    return bills_of(
        by_level,
        [record.usage for record in run.requests if record.error is None],
        run.header.target.get("prices"),
        means_over="means over the on-requests that were due in the window",
    )


def _errors(load: dict[str, Any]) -> list[str]:
    """What failed requests of reported levels said, and how often."""
    return [
        f"{row['level']:g}, caching {arm}: {count} × {error}"
        for row in load["rows"]
        for arm in ("off", "on")
        if row[arm]["refused"] is None
        for error, count in row[arm]["errors"].items()
    ]

"""From a load run's records to its results: a pure function, so that a report comes out the same again."""

from typing import Any

from anaphora.lab.load.analysis import analyse
from anaphora.lab.load.records import LoadRun
from anaphora.lab.load.trust import checks


def results_of(run: LoadRun) -> dict[str, Any]:
    """What ``results.json`` holds."""
    load = analyse(run)
    return {
        "run": {
            "run_id": run.header.run_id,
            "started_at": run.header.started_at,
            "num_planned_stages": len(run.header.stages),
            "num_stages": len(run.windows),
            "num_requests": len(run.requests),
            "settings": dict(run.header.settings),
        },
        "target": dict(run.header.target),
        "load": load,
        "trust": checks(run, load),
        "errors": _errors(load),
        "environment": dict(run.header.environment),
    }


def _errors(load: dict[str, Any]) -> list[str]:
    """What failed requests of reported levels said, and how often."""
    return [
        f"{row['level']:g}, caching {arm}: {count} × {error}"
        for row in load["rows"]
        for arm in ("off", "on")
        if row[arm]["refused"] is None
        for error, count in row[arm]["errors"].items()
    ]

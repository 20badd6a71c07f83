"""Results of a simulation as one object, and as files for machines."""

import csv
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anaphora.sim.sampling import Sample
    from anaphora.sim.sweep import SimulatedRun
    from anaphora.traces.findings import Finding
    from anaphora.traces.request import ServedBy, Trace


def results_of(
    trace: "Trace",
    num_distinct_blocks: int,
    reuse: Mapping[str, Any],
    runs: Sequence["SimulatedRun"],
    drawn: "Sample | None",
    command: str,
) -> dict[str, Any]:
    """Everything that is printed or written, for machines.

    ``reuse``: see :func:`anaphora.sim.reuse.reuse_of`. ``drawn``: the sample that was replayed, if not all.
    """
    return {
        "command": command,
        "trace": {
            "path": str(trace.path),
            "format": trace.format,
            "block_size": trace.block_size,
            "rows": trace.num_rows,
            "requests": len(trace.requests),
            "distinct_blocks": num_distinct_blocks,
            "served_by": None if trace.served_by is None else _served_by(trace.served_by),
            "findings": [_finding(finding) for finding in trace.findings],
            "remarks": [str(finding) for finding in trace.findings],
        },
        "reuse": reuse,
        "sample": None if drawn is None else _sample(drawn),
        "runs": [run.to_json() for run in runs],
    }


def _finding(finding: "Finding") -> dict[str, Any]:
    return {
        "kind": finding.kind.value,
        "count": finding.count,
        "lines": list(finding.lines),
        "skips_rows": finding.skips_rows,
        "detail": finding.detail,
    }


def _served_by(served: "ServedBy") -> dict[str, Any]:
    return {
        **dataclasses.asdict(served),
        "prompt_tokens": served.num_prompt_tokens,
        "cached_tokens": served.num_cached_tokens,
    }


def _sample(drawn: "Sample") -> dict[str, Any]:
    return {
        "requests": len(drawn.prompts),
        "groups": drawn.num_groups,
        "group_depth_blocks": drawn.depth,
        "capacity_scale": drawn.scale,
    }


def write_results(results: Mapping[str, Any], folder: Path) -> None:
    """``results.json`` and ``runs.csv`` (one row a run, the ledger in columns of its own) into a folder."""
    text = json.dumps(results, ensure_ascii=False, indent=2, allow_nan=False)
    (folder / "results.json").write_text(text + "\n", "utf-8")
    with (folder / "runs.csv").open("w", encoding="utf-8", newline="") as file:
        rows = [_flat(run) for run in results["runs"]]
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _flat(run: Mapping[str, Any]) -> dict[str, Any]:
    """An unbounded capacity is an empty cell."""
    plain = {name: "" if value is None else value for name, value in run.items() if name not in ("ledger", "timing")}
    return plain | {f"ledger_{reason}": count for reason, count in run["ledger"].items()}

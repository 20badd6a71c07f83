"""From the records of a load run to its figures: one row for each level, with a cell for each arm."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from anaphora.lab.load.cells import accepted, cell_of
from anaphora.lab.load.records import LoadRecord, LoadRun
from anaphora.lab.load.steady import Steady, steady_stages
from anaphora.lab.load.timings import ttft_ms
from anaphora.lab.statistics import independent_reduction_interval, reduction_percent


def analyse(run: LoadRun) -> dict[str, Any]:
    """Everything that is derived from the records."""
    limits = run.header.settings["slo"]
    seed = int(run.header.settings["seed"])
    stages = steady_stages(run.header.stages, run.windows, run.requests, run.beats)
    levels = list(dict.fromkeys(stage.level for stage in sorted(run.header.stages, key=lambda stage: stage.level)))
    rows = [_row(level, [one for one in stages if one.stage.level == level], limits, seed) for level in levels]
    return {"loop": run.header.stages[0].loop, "slo": dict(limits), "rows": rows, "closing": closing(rows)}


def ttft_samples(run: LoadRun) -> dict[tuple[float, str], list[float]]:
    """Times to first token of every cell that was reached, by level and arm."""
    samples: dict[tuple[float, str], list[float]] = {}
    for one in accepted(steady_stages(run.header.stages, run.windows, run.requests, run.beats)):
        found = [time for record in one.measured() if (time := ttft_ms(record)) is not None]
        samples.setdefault((one.stage.level, one.stage.arm), []).extend(found)
    return samples


def _row(level: float, stages: Sequence[Steady], limits: Mapping[str, float], seed: int) -> dict[str, Any]:
    """Both arms of a level, and what the cache changes."""
    arms = {arm: [one for one in stages if one.stage.arm == arm] for arm in ("off", "on")}
    samples = {arm: [t for r in _good(accepted(arms[arm])) if (t := ttft_ms(r)) is not None] for arm in arms}
    cells = {arm: cell_of(arms[arm], limits) for arm in arms}
    interval = independent_reduction_interval(samples["off"], samples["on"], seed=seed)
    return {
        "level": level,
        **cells,
        "ttft_p50_reduction_percent": reduction_percent(
            *(_value(cells[arm], "ttft_ms", "p50") for arm in ("off", "on"))
        ),
        "ttft_p50_reduction_interval": None if interval is None else asdict(interval),
        "output_tokens_per_s_gain_percent": _gain(*(cells[arm].get("output_tokens_per_s") for arm in ("off", "on"))),
    }


def _good(stages: Sequence[Steady]) -> list[LoadRecord]:
    return [record for one in stages for record in one.measured() if record.error is None]


def closing(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The three lines of the seed documents' closing table, in both arms: TPOT P50 at the lowest level, output tokens
    per second at the highest, and the best goodput of any level in output tokens per second."""
    lowest, highest = rows[0], rows[-1]
    return {
        arm: {
            "tpot_p50_ms": _value(lowest[arm], "tpot_ms", "p50"),
            "output_tokens_per_s": highest[arm].get("output_tokens_per_s"),
            "goodput_output_tokens_per_s": max(
                (row[arm]["goodput"]["output_tokens_per_s"] for row in rows if row[arm].get("goodput")), default=None
            ),
        }
        for arm in ("off", "on")
    } | {"lowest_level": lowest["level"], "highest_level": highest["level"]}


def _value(cell: Mapping[str, Any], time: str, name: str) -> float | None:
    found = None if cell["refused"] is not None else cell[time][name]
    return None if found is None else float(found["value"])


def _gain(off: float | None, on: float | None) -> float | None:
    return None if off is None or on is None or off == 0 else 100 * (on / off - 1)

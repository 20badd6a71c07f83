"""The lines through a gradient's medians: times of both arms and what is saved, against the prompt's length."""

from collections.abc import Mapping, Sequence
from typing import Any

from anaphora.lab import statistics
from anaphora.lab.experiments.summary import interval, ms, of_arm, paired
from anaphora.lab.statistics import Line
from anaphora.lab.timings import ttft_ms
from anaphora.traces.records import Arm, RequestRecord


def fit_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, Line | None]:
    """Lines through a table with ``prompt_tokens``, ``off_ttft_ms`` and ``on_ttft_ms``; rows without a value are
    left out.

    ``saved`` is the line of the difference, over the rows that have both.
    """
    by_name: dict[str, list[tuple[float, float]]] = {"off": [], "on": [], "saved": []}
    for row in rows:
        tokens, off, on = row["prompt_tokens"], row["off_ttft_ms"], row["on_ttft_ms"]
        for name, value in (("off", off), ("on", on), ("saved", None if off is None or on is None else off - on)):
            if tokens is not None and value is not None:
                by_name[name].append((tokens, value))
    return {
        name: statistics.fit_line([x for x, _ in points], [y for _, y in points]) for name, points in by_name.items()
    }


def with_repeats(
    lines: Mapping[str, Line | None], rows: Sequence[Mapping[str, Any]], records: Sequence[RequestRecord], seed: int
) -> dict[str, Line | None]:
    """The same lines, with intervals from the requests behind the medians; for ``saved``, from pairs."""
    found = dict(lines)
    for name, line in lines.items():
        points = [
            (row["prompt_tokens"], samples)
            for row in rows
            if row["prompt_tokens"] is not None
            and (samples := _samples(name, [r for r in records if r.group == row["prefix_tokens"]]))
        ]
        if line is not None and len(points) == line.num_points:
            found[name] = statistics.with_repeats(line, [x for x, _ in points], [y for _, y in points], seed=seed)
    return found


def _samples(name: str, records: Sequence[RequestRecord]) -> list[float]:
    """The times of an arm, or what each pair saved."""
    if name == "saved":
        return [off - on for off, on in zip(*paired(records, ttft_ms), strict=True)]
    arm: Arm = "off" if name == "off" else "on"
    return [time for record in of_arm(records, arm) if (time := ttft_ms(record)) is not None]


def slope_reduction(lines: Mapping[str, Line | None]) -> float | None:
    """By how many per cent the on line is flatter than the off line."""
    off, on = lines["off"], lines["on"]
    return (
        None
        if off is None or on is None
        else statistics.reduction_percent(off.slope_ms_per_ktoken, on.slope_ms_per_ktoken)
    )


def line_as_stored(line: Line) -> dict[str, Any]:
    """A line as ``results.json`` has it."""
    return {
        "slope_ms_per_ktoken": round(line.slope_ms_per_ktoken, 4),
        "intercept_ms": round(line.intercept_ms, 4),
        "r2": None if line.r2 is None else round(line.r2, 6),
        "num_points": line.num_points,
        "prompt_tokens_range": list(line.token_range),
        "slope_interval": interval(line.slope_interval, ms),
        "intercept_interval": interval(line.intercept_interval, ms),
    }

"""From raw samples to the table's numbers. Pure: the same samples always give the same summary."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.cpu.rows import AIMED, SHOWN, Row, Statistic
from benchmarks.cpu.sample import Sample

SERVERS = ("ours", "vllm", "llamacpp")
DIGITS = 4
NOISY_CORES = 0.25


def summarise(samples: Sequence[Sample], run: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The summary of a run. ``run``: what is known of it besides its samples; ``path``: where the samples lie."""
    return {
        **run,
        "noise": noise(samples),
        "failures": [f"{s.server}: {s.detail['error']}" for s in samples if s.measure == "failure"],
        "rows": [summarise_row(row, samples, path) for row in AIMED],
        "shown": [summarise_row(row, samples, path) for row in SHOWN],
        "host_stages": host_stages(samples),
    }


def summarise_row(row: Row, samples: Sequence[Sample], path: str) -> dict[str, Any]:
    """One row with each server's figure, the aim, and whether ours met it (``None``: not measured)."""
    chosen = {server: [s for s in select(row, samples) if s.server == server] for server in SERVERS}
    figures = {server: _figure(row.statistic, of_server) for server, of_server in chosen.items()}
    summary: dict[str, Any] = {"name": row.name, "unit": row.unit, **figures}
    if row.factor is not None:
        aim = aim_of(row, figures)
        summary |= {"aim": aim, "met": is_met(row, figures["ours"], aim), "rule": row.rule}
    where = {"measure": row.measure} | ({} if row.length is None else {"length": row.length})
    summary["samples"] = {"path": path, "where": where, "by": "server", "of": "value", "statistic": row.statistic}
    if row.statistic in ("median", "least"):
        summary["spread"] = {server: _spread(of_server) for server, of_server in chosen.items() if of_server}
    return summary


def select(row: Row, samples: Sequence[Sample]) -> list[Sample]:
    """The samples that a row rests on."""
    return [s for s in samples if s.measure == row.measure and row.length in (None, s.length)]


def aim_of(row: Row, figures: Mapping[str, float | None]) -> float | None:
    """The figure that ours should reach, in the row's unit; ``None`` if it rests on a server that was not measured."""
    if row.factor is None or row.against is None:
        return row.factor
    peer = figures[row.against]
    return None if peer is None else round(row.factor * peer, DIGITS)


def is_met(row: Row, ours: float | None, aim: float | None) -> bool | None:
    """Whether ours is on the right side of the aim; ``None`` if either is unknown."""
    if ours is None or aim is None:
        return None
    return ours <= aim if row.sense == "at most" else ours >= aim


def slope_per_thousand(samples: Sequence[Sample]) -> float:
    """Least squares through the medians of each length, per 1000 tokens.

    Hits are laid over the tokens that the server says it took from its cache, cold requests over their prompt tokens.
    Raises ``statistics.StatisticsError`` below two lengths.
    """
    points = []
    for length in sorted({s.length for s in samples if s.length is not None}):
        of_length = [s for s in samples if s.length == length]
        x = statistics.median(_tokens(s) for s in of_length)
        points.append((x, statistics.median(s.value for s in of_length)))
    tokens, medians = zip(*points, strict=True)
    return 1000 * statistics.linear_regression(tokens, medians).slope


def host_stages(samples: Sequence[Sample]) -> dict[str, float]:
    """Median milliseconds of each stage of the host's work, in the order in which a request passes them."""
    of_host = [s for s in samples if s.measure == "host_stage_ms"]
    names = dict.fromkeys(s.detail["stage"] for s in of_host)
    return {
        name: round(statistics.median(s.value for s in of_host if s.detail["stage"] == name), DIGITS) for name in names
    }


def noise(samples: Sequence[Sample]) -> dict[str, Any]:
    """How much of the machine others used during the requests, in cores."""
    foreign = sorted(s.detail["foreign_cores"] for s in samples if "foreign_cores" in s.detail)
    if not foreign:
        return {}
    return {
        "foreign_cores_median": statistics.median(foreign),
        "foreign_cores_p90": foreign[int(0.9 * (len(foreign) - 1))],
        "requests_disturbed_percent": round(100 * sum(f > NOISY_CORES for f in foreign) / len(foreign), 1),
    }


_STATISTICS: dict[Statistic, Callable[[Sequence[Sample]], float]] = {
    "median": lambda samples: statistics.median(s.value for s in samples),
    "least": lambda samples: min(s.value for s in samples),
    "slope": slope_per_thousand,
}


def _figure(statistic: Statistic, samples: Sequence[Sample]) -> float | None:
    try:
        return round(_STATISTICS[statistic](samples), DIGITS) if samples else None
    except statistics.StatisticsError:
        return None


def _tokens(sample: Sample) -> float:
    cached = sample.detail.get("num_cached_tokens")
    return float(cached if cached and sample.measure.startswith("hit") else sample.detail["num_prompt_tokens"])


def _spread(samples: Sequence[Sample]) -> dict[str, float]:
    values = [s.value for s in samples]
    return {"num": len(values), "min": round(min(values), DIGITS), "max": round(max(values), DIGITS)}

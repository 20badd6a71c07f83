"""The table's rows: which samples, by which statistic, and what is aimed at."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.cpu.sample import Sample

SERVERS = ("ours", "vllm_default", "vllm_rust")
DIGITS = 4


@dataclass(frozen=True, slots=True)
class Row:
    """One line. The aim is ``limit`` in the row's unit or, with ``against``, so many times that server's figure."""

    name: str
    unit: str
    measure: str
    length: int | None
    limit: float
    against: str | None = None
    statistic: str = "median"


def _row(name: str, measure: str, length: int, limit: float, against: str | None = None, unit: str = "ms") -> Row:
    return Row(name, unit, measure, length, limit, against)


ROWS = (
    *(
        _row(f"hit, {n} tokens", "hit_ttft_ms", n, limit)
        for n, limit in ((353, 7.0), (3961, 8.0), (16000, 10.0), (30000, 13.0))
    ),
    Row("hit slope", "ms per 1000 cached tokens", "hit_ttft_ms", None, 0.2, statistic="slope"),
    *(
        _row(f"cold, {n} tokens", "cold_ttft_ms", n, factor, "vllm_rust")
        for n, factor in ((1337, 0.97), (3961, 0.97), (16000, 1.0), (30000, 1.0))
    ),
    _row("TPOT, 1 stream, 4k context", "tpot_ms", 4096, 4.3),
    _row("64 clients, one 4k prefix, 128 tokens each: total", "burst_total_s", 4096, 0.75, unit="s"),
    _row("64 clients, one 4k prefix: TTFT, median", "burst_ttft_ms", 4096, 70.0),
    Row("64 clients, one 4k prefix: TTFT, p99", "ms", "burst_ttft_ms", 4096, 120.0, statistic="p99"),
    _row("64 clients, one 30k prefix, 128 tokens each: total", "burst_total_s", 30000, 0.5, "vllm_rust", "s"),
    Row("start to ready, first start", "s", "ready_s", None, 15.0, statistic="first"),
    Row("start to ready, second start", "s", "ready_s", None, 15.0, statistic="second"),
)


def summarise(samples: Sequence[Sample], run: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The summary of a run, from its samples alone; ``path``: where they lie."""
    return {**run, "rows": [_summarise_row(row, samples, path) for row in ROWS]}


def _summarise_row(row: Row, samples: Sequence[Sample], path: str) -> dict[str, Any]:
    chosen = [s for s in samples if s.measure == row.measure and row.length in (None, s.length)]
    figures = {name: _figure(row.statistic, [s for s in chosen if s.server == name]) for name in SERVERS}
    aim: float | None = row.limit
    if row.against is not None:
        peer = figures[row.against]
        aim = None if peer is None else round(row.limit * peer, DIGITS)
    ours = figures["ours"]
    where = {"measure": row.measure} | ({} if row.length is None else {"length": row.length})
    return {
        "name": row.name,
        "unit": row.unit,
        **figures,
        "aim": aim,
        "met": None if ours is None or aim is None else ours <= aim,
        "rule": f"at most {row.limit:g}" + (f" x {row.against}" if row.against else ""),
        "samples": {"path": path, "where": where, "by": "server", "of": "value", "statistic": row.statistic},
    }


def _slope(samples: Sequence[Sample]) -> float:
    """Least squares through the medians of each length, over the cached tokens, per 1000."""
    points = []
    for length in sorted({s.length for s in samples if s.length is not None}):
        of_length = [s for s in samples if s.length == length]
        cached = [s.detail.get("num_cached_tokens") or length for s in of_length]
        points.append((statistics.median(cached), statistics.median(s.value for s in of_length)))
    tokens, medians = zip(*points, strict=True)
    return 1000 * statistics.linear_regression(tokens, medians).slope


def _p99(samples: Sequence[Sample]) -> float:
    values = sorted(s.value for s in samples)
    return values[min(len(values) - 1, round(0.99 * (len(values) - 1)))]


_STATISTICS: dict[str, Callable[[Sequence[Sample]], float]] = {
    "median": lambda samples: statistics.median(s.value for s in samples),
    "first": lambda samples: samples[0].value,
    "second": lambda samples: samples[1].value,
    "slope": _slope,
    "p99": _p99,
}


def _figure(statistic: str, samples: Sequence[Sample]) -> float | None:
    try:
        return round(_STATISTICS[statistic](samples), DIGITS) if samples else None
    except (statistics.StatisticsError, IndexError):  # fewer samples than that takes
        return None

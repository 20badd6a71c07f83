"""What every experiment says of an arm: the counts behind the numbers first, then medians with their intervals."""

from collections.abc import Callable, Sequence
from typing import Any

from anaphora.lab import statistics
from anaphora.lab.quantiles import quantile
from anaphora.lab.statistics import Interval
from anaphora.lab.timings import e2e_ms, ttft_ms
from anaphora.traces.records import Arm, RequestRecord

MS_DIGITS = 3
TAIL = {"p90": 0.9, "p99": 0.99}
PERCENT_DIGITS = 6


def of_arm(records: Sequence[RequestRecord], arm: Arm) -> list[RequestRecord]:
    """The measured records of an arm, in order; warm-up and first requests are not among them."""
    return [record for record in records if record.arm == arm and record.phase == "measured"]


def summarise(records: Sequence[RequestRecord]) -> dict[str, Any]:
    """Counts and medians of some records. Failed and unmeasured ones are counted and are in no statistic."""
    ttfts = [value for record in records if (value := ttft_ms(record)) is not None]
    e2es = [value for record in records if (value := e2e_ms(record)) is not None]
    succeeded = [record for record in records if record.error is None]
    return {
        "num_requests": len(records),
        "num_failed": len(records) - len(succeeded),
        "num_not_streamed": sum(not record.streamed for record in succeeded),
        "num_without_token": sum(record.streamed and record.first_token_ns is None for record in succeeded),
        "ttft_ms_median": ms(statistics.median(ttfts)),
        "ttft_ms_interval": interval(statistics.median_interval(ttfts), ms),
        "e2e_ms_median": ms(statistics.median(e2es)),
        "e2e_ms_interval": interval(statistics.median_interval(e2es), ms),
        "ttft_ms_tail": tail(ttfts),
        "e2e_ms_tail": tail(e2es),
    }


def tail(values: Sequence[float]) -> dict[str, Any]:
    """P90 and P99 with the number of samples behind them; ``None`` where these are too few to tell."""
    found = {name: quantile(values, fraction) for name, fraction in TAIL.items()}
    return {
        "num_samples": len(values),
        **{name: None if one is None else ms(one.value) for name, one in found.items()},
    }


def median_of(records: Sequence[RequestRecord], value: Callable[[RequestRecord], float | None]) -> float | None:
    """The median in milliseconds over the records that have the value."""
    return ms(statistics.median([number for record in records if (number := value(record)) is not None]))


def paired(
    records: Sequence[RequestRecord], value: Callable[[RequestRecord], float | None]
) -> tuple[list[float], list[float]]:
    """Off and on values of the pairs in which both were measured."""
    off = {record.index: value(record) for record in of_arm(records, "off")}
    on = {record.index: value(record) for record in of_arm(records, "on")}
    pairs = [(a, b) for index, a in sorted(off.items()) if a is not None and (b := on.get(index)) is not None]
    return [a for a, _ in pairs], [b for _, b in pairs]


def paired_reduction(
    records: Sequence[RequestRecord], value: Callable[[RequestRecord], float | None], *, seed: int
) -> dict[str, Any] | None:
    """The interval of the reduction of medians, over pairs."""
    off, on = paired(records, value)
    return interval(statistics.reduction_interval(off, on, seed=seed) if off else None, percent)


def paired_difference(
    records: Sequence[RequestRecord], value: Callable[[RequestRecord], float | None]
) -> dict[str, Any]:
    """Off minus on of each pair: the median difference and its interval, over the pairs in which both were measured."""
    off, on = paired(records, value)
    differences = [a - b for a, b in zip(off, on, strict=True)]
    return {
        "median": ms(statistics.median(differences)),
        "interval": interval(statistics.median_interval(differences), ms),
        "num_pairs": len(differences),
    }


def ms(value: float | None) -> float | None:
    """Milliseconds as they are stored: to the microsecond."""
    return None if value is None else round(value, MS_DIGITS)


def percent(value: float | None) -> float | None:
    """Per cent as they are stored."""
    return None if value is None else round(value, PERCENT_DIGITS)


def interval(value: Interval | None, rounded: Callable[[float | None], float | None]) -> dict[str, Any] | None:
    """An interval as it is stored."""
    if value is None:
        return None
    return {"low": rounded(value.low), "high": rounded(value.high), "level": round(value.level, 4)}

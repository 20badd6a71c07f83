"""One level of one arm: its figures, from all repetitions together, or why there are none."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from anaphora.lab.load.hit_rates import hit_rate_of_counters, hit_rate_of_usage
from anaphora.lab.load.records import LoadRecord
from anaphora.lab.load.slo import keeps
from anaphora.lab.load.steady import Steady
from anaphora.lab.load.timings import (
    e2e_ms,
    gaps_ms,
    lateness_ms,
    limit_times,
    num_output_tokens,
    tpot_ms,
    ttft_ms,
)
from anaphora.lab.load.verdict import all_doubts, refusal
from anaphora.lab.quantiles import quantile, wilson
from anaphora.lab.usage import read_usage

FRACTIONS = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def cell_of(stages: Sequence[Steady], limits: Mapping[str, float]) -> dict[str, Any]:
    """One level of one arm. ``refused``: why there are no figures; else they follow."""
    reasons = [reason for one in stages if (reason := refusal(one)) is not None]
    good = accepted(stages)
    if not good:
        return {"refused": "; ".join(dict.fromkeys(reasons)) or "it was not run"}
    seconds = sum(one.seconds for one in good)
    measured = [record for one in good for record in one.measured()]
    open_loop = good[0].stage.loop != "closed"
    return {
        "refused": None,
        "num_stages": len(good),
        "num_stages_refused": len(reasons),
        "window_s": seconds,
        "num_processes": good[0].stage.num_processes,
        "num_measured": len(measured),
        "num_failed": sum(record.error is not None for record in measured),
        "num_not_streamed": sum(record.error is None and not record.streamed for record in measured),
        "num_without_token": sum(
            record.error is None and record.streamed and not record.token_offsets_ns for record in measured
        ),
        "errors": dict(Counter(record.error for record in measured if record.error is not None).most_common(5)),
        "mean_open": sum(one.mean_open() * one.seconds for one in good) / seconds,
        "most_open": max(one.most_open() for one in good),
        "requests_per_s": sum(one.num_answers() for one in good) / seconds,
        "output_tokens_per_s": sum(one.num_output_tokens() for one in good) / seconds,
        "mean_output_tokens": _mean([num_output_tokens(record) for record in measured if record.error is None]),
        "mean_prompt_tokens": _mean(_prompt_tokens(measured)),
        "hit_rate_percent": {
            "usage": hit_rate_of_usage(measured),
            "usage_of_whole_stages": hit_rate_of_usage([record for one in good for record in one.records]),
            "metrics": hit_rate_of_counters(good),
        },
        **_times(measured),
        "from_due": _times(measured, from_due=True) if open_loop else None,
        "lateness_ms": _quantiles([lateness_ms(record) for record in measured]),
        "goodput": _goodput(measured, limits, seconds, from_due=open_loop) if limits else None,
        "worst_loop_lag_ms": max(
            (beat.worst_lag_ns / 1e6 for one in good for beat in one.beats_within()), default=None
        ),
        "doubts": [doubt._asdict() for doubt in all_doubts(good)],
    }


def accepted(stages: Sequence[Steady]) -> list[Steady]:
    """Those that were steady enough for figures."""
    return [one for one in stages if refusal(one) is None]


def _times(records: Sequence[LoadRecord], *, from_due: bool = False) -> dict[str, Any]:
    """Quantiles of every time; failed and unmeasured requests are in none."""

    def known(time: Callable[[LoadRecord], float | None]) -> list[float]:
        return [
            value + (lateness_ms(record) if from_due else 0.0)
            for record in records
            if (value := time(record)) is not None
        ]

    found = {"ttft_ms": known(ttft_ms), "e2e_ms": known(e2e_ms)}
    if not from_due:
        found["tpot_ms"] = known(tpot_ms)
        found["itl_ms"] = [gap for record in records for gap in gaps_ms(record)]
    return {name: _quantiles(values) for name, values in found.items()}


def _quantiles(values: Sequence[float]) -> dict[str, Any]:
    """By name, with the size of the sample; a quantile that it cannot give is ``None``."""
    found = {name: quantile(values, fraction) for name, fraction in FRACTIONS.items()}
    return {
        "num_samples": len(values),
        **{name: None if one is None else asdict(one) for name, one in found.items()},
    }


def _goodput(
    records: Sequence[LoadRecord], limits: Mapping[str, float], seconds: float, *, from_due: bool
) -> dict[str, Any]:
    """Requests within all limits: their share of all measured ones, failed ones included, and their rate."""
    within = [record for record in records if keeps(limits, limit_times(record, from_due=from_due))]
    share = wilson(len(within), len(records))
    by_limit = {
        name: sum(keeps({name: limit}, limit_times(record, from_due=from_due)) for record in records)
        for name, limit in limits.items()
    }
    return {
        "num_within": len(within),
        "num_requests": len(records),
        "share": len(within) / len(records),
        "share_interval": None if share is None else asdict(share),
        "num_within_by_limit": by_limit,
        "requests_per_s": len(within) / seconds,
        "output_tokens_per_s": sum(num_output_tokens(record) for record in within) / seconds,
    }


def _prompt_tokens(records: Sequence[LoadRecord]) -> list[int]:
    return [count for r in records if (count := read_usage(r.usage).num_prompt_tokens) is not None]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None

"""From the records of a load run to its figures: one cell for each level and arm, repetitions pooled."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from anaphora.lab.load.quantiles import quantile, wilson
from anaphora.lab.load.records import LoadRecord, LoadRun
from anaphora.lab.load.slo import keeps
from anaphora.lab.load.steady import Steady, steady_stages
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
from anaphora.lab.statistics import independent_reduction_interval, reduction_percent
from anaphora.lab.usage import read_usage

FRACTIONS = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
TIMES = ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")


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
    for one in _accepted(steady_stages(run.header.stages, run.windows, run.requests, run.beats)):
        found = [time for record in one.measured() if (time := ttft_ms(record)) is not None]
        samples.setdefault((one.stage.level, one.stage.arm), []).extend(found)
    return samples


def _row(level: float, stages: Sequence[Steady], limits: Mapping[str, float], seed: int) -> dict[str, Any]:
    """Both arms of a level, and what the cache changes."""
    arms = {arm: [one for one in stages if one.stage.arm == arm] for arm in ("off", "on")}
    samples = {arm: [t for r in _good(_accepted(arms[arm])) if (t := ttft_ms(r)) is not None] for arm in arms}
    cells = {arm: _cell(arms[arm], limits) for arm in arms}
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


def _cell(stages: Sequence[Steady], limits: Mapping[str, float]) -> dict[str, Any]:
    """One level of one arm. ``refused``: why there are no figures; else they follow."""
    reasons = [reason for one in stages if (reason := refusal(one)) is not None]
    good = _accepted(stages)
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
        "errors": dict(Counter(record.error for record in measured if record.error is not None).most_common(5)),
        "mean_open": sum(one.mean_open() * one.seconds for one in good) / seconds,
        "most_open": max(one.most_open() for one in good),
        "requests_per_s": sum(one.num_answers() for one in good) / seconds,
        "output_tokens_per_s": sum(one.num_output_tokens() for one in good) / seconds,
        "mean_output_tokens": _mean([num_output_tokens(record) for record in measured if record.error is None]),
        "mean_prompt_tokens": _mean(_prompt_tokens(measured)),
        "hit_rate_percent": {
            "usage": _hit_rate_of_usage(measured),
            "usage_of_whole_stages": _hit_rate_of_usage([record for one in good for record in one.records]),
            "metrics": _hit_rate_of_counters(good),
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


def _accepted(stages: Sequence[Steady]) -> list[Steady]:
    return [one for one in stages if refusal(one) is None]


def _good(stages: Sequence[Steady]) -> list[LoadRecord]:
    return [record for one in stages for record in one.measured() if record.error is None]


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


def _hit_rate_of_usage(records: Sequence[LoadRecord]) -> float | None:
    """Cached share of the prompt tokens of the measured requests that tell both."""
    pairs = [
        (usage.num_prompt_tokens, usage.num_cached_tokens)
        for record in records
        if (usage := read_usage(record.usage)).num_prompt_tokens and usage.num_cached_tokens is not None
    ]
    total = sum(prompt or 0 for prompt, _ in pairs)
    return 100 * sum(cached or 0 for _, cached in pairs) / total if total else None


def _hit_rate_of_counters(stages: Sequence[Steady]) -> float | None:
    """What the server's counters grew by over whole stages, warm-up and cool-down included."""
    queried = cached = 0.0
    for one in stages:
        before, after = one.window.counters_before, one.window.counters_after
        if before is None or after is None or (before.family, before.unit) != (after.family, after.unit):
            return None
        queried += after.queried - before.queried
        cached += after.cached - before.cached
    return 100 * cached / queried if queried > 0 and cached >= 0 else None


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


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None

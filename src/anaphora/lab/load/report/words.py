"""Levels, quantiles and findings of a load in words."""

from collections.abc import Mapping
from typing import Any

from anaphora.lab.load.levels import level_name
from anaphora.lab.report.words import change, ms, percent, signed_percent
from anaphora.lab.witnesses import told_rate

NONE = "–"
_LOOK = "`anaphora doctor` looks for the cause."


def level_column(loop: str) -> str:
    """The heading above levels."""
    return {"closed": "clients", "open": "rate, 1/s", "replay": "speed"}[loop]


def level_axis(loop: str) -> str:
    """The axis below levels."""
    return {
        "closed": "concurrency (clients that ask again when answered)",
        "open": "requests per second (Poisson arrivals)",
        "replay": "speed of the replay",
    }[loop]


def quantile_text(found: Mapping[str, Any] | None) -> str:
    """A quantile's value, or a dash where the sample cannot give it."""
    return NONE if found is None else ms(found["value"])


def bounds_text(found: Mapping[str, Any] | None) -> str:
    """Its interval; open where the sample ends."""
    if found is None:
        return NONE
    low, high = found["low"], found["high"]
    return f"{'…' if low is None else ms(low)} to {'…' if high is None else ms(high)}"


def rate_text(value: float | None) -> str:
    """A rate with as many digits as it deserves."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def share_text(goodput: Mapping[str, Any]) -> str:
    """Share of requests within the limits, with its interval."""
    interval = goodput["share_interval"]
    return f"{percent(100 * goodput['share'])} ({100 * interval['low']:.0f} to {100 * interval['high']:.0f})"


def limits_text(limits: Mapping[str, float]) -> str:
    """``TTFT ≤ 200 ms, TPOT ≤ 30 ms``."""
    return ", ".join(f"{name.removesuffix('_ms').upper()} ≤ {limit:g} ms" for name, limit in limits.items())


def answer(results: Mapping[str, Any]) -> str:
    """What the run found, in a sentence or two."""
    load = results["load"]
    both = [row for row in load["rows"] if row["ttft_p50_reduction_percent"] is not None]
    if not both:
        return _one_arm(load)
    shown = [both[place] for place in dict.fromkeys((0, len(both) - 1))]
    parts = [_level(load["loop"], row) for row in shown]
    return " ".join([*parts, _LOOK] if all(map(_missed, shown)) else parts)


def _missed(row: Mapping[str, Any]) -> bool:
    """Whether nothing came from the cache, as far as is told: then what differs is chance."""
    return told_rate(row["on"]["hit_rate_percent"]) == 0


def _level(loop: str, row: Mapping[str, Any]) -> str:
    off, on = row["off"], row["on"]
    medians = off["ttft_ms"]["p50"]["value"], on["ttft_ms"]["p50"]["value"]
    if _missed(row):
        return (
            f"At {level_name(loop, row['level'])}, nothing came from the cache: the medians of time to first token, "
            f"{ms(medians[0])} ms off and {ms(medians[1])} ms on, do not differ by caching."
        )
    ttft = change(*medians, row["ttft_p50_reduction_percent"])
    where = f"At {level_name(loop, row['level'])}, prefix caching changed the median time to first token {ttft}"
    if loop != "closed":
        return f"{where}."  # what comes out is what came in: the arrivals decide, not the cache
    gain = row["output_tokens_per_s_gain_percent"]
    tokens = f"{rate_text(off['output_tokens_per_s'])} to {rate_text(on['output_tokens_per_s'])}"
    return f"{where}, and output tokens per second from {tokens} ({signed_percent(None if gain is None else -gain)})."


def _one_arm(load: Mapping[str, Any]) -> str:
    known = [(row, arm) for row in load["rows"] for arm in ("on", "off") if row[arm]["refused"] is None]
    if not known:
        return "No level of the load was reached: nothing is reported. The reasons stand with each level."
    row, arm = known[-1]
    return (
        f"At {level_name(load['loop'], row['level'])} with caching {arm} the server gave "
        f"{rate_text(row[arm]['output_tokens_per_s'])} output tokens per second. No level has figures in both arms."
    )

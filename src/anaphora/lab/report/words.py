"""Numbers and findings in words; every page and table says them the same way."""

from collections.abc import Iterable, Mapping
from typing import Any

UNKNOWN = "unknown"


def ms(value: float | None) -> str:
    """Milliseconds with one decimal."""
    return "–" if value is None else f"{value:,.1f}".replace("-", "−")


def signed_percent(value: float | None) -> str:
    """A change with its sign: a reduction by 92.6% is −92.6%, a negative one +2.1%."""
    if value is None:
        return "–"
    return f"{'−' if value > 0 else '+' if value < 0 else '±'}{abs(value):.1f}%"


def percent(value: float | None) -> str:
    """A share or a reduction; a negative one keeps its sign."""
    return UNKNOWN if value is None else f"{value:.1f}%".replace("-", "−")


def count(value: float | None) -> str:
    """Tokens."""
    return "–" if value is None else f"{value:,.0f}"


def interval(value: Mapping[str, Any] | None, digits: int = 1) -> str:
    """An interval without its level (see :func:`level_of`)."""
    return "–" if value is None else f"{value['low']:,.{digits}f} to {value['high']:,.{digits}f}".replace("-", "−")


def level_of(intervals: Iterable[Mapping[str, Any] | None]) -> str:
    """The level that all of these intervals reach at least."""
    levels = [value["level"] for value in intervals if value is not None]
    return f"{min(levels) * 100:g}%" if levels else "no level"


def answer(results: Mapping[str, Any]) -> str:
    """What the run found, in one sentence or two."""
    experiments = results["experiments"]
    parts = [
        *([_switch(experiments["switch"], results)] if "switch" in experiments else []),
        *([_gradient(experiments["gradient"])] if "gradient" in experiments else []),
    ]
    return " ".join(part for part in parts if part) or "Nothing was measured."


def _switch(switch: Mapping[str, Any], results: Mapping[str, Any]) -> str:
    off, on = switch["off"], switch["on"]
    reduction = switch["reduction_percent"]
    if reduction["ttft"] is None:
        return "The switch experiment has no time to first token in one of its arms."
    tokens = results["run"]["settings"]["prefix_tokens"]
    hit = switch["hit_rate_percent_after_first"]["usage"]
    served = "" if hit is None else f", with {percent(hit)} of the prompt tokens served from the cache"
    ttft = _change(off["ttft_ms_median"], on["ttft_ms_median"], reduction["ttft"])
    e2e = _change(off["e2e_ms_median"], on["e2e_ms_median"], reduction["e2e"])
    return (
        f"Behind a shared system prompt of {tokens:,} tokens, prefix caching changed the median time to first token "
        f"{ttft} and the time of the whole answer {e2e}{served}."
    )


def _change(off: float | None, on: float | None, reduction: float | None) -> str:
    return f"from {ms(off)} to {ms(on)} ms ({signed_percent(reduction)})"


def _gradient(gradient: Mapping[str, Any]) -> str:
    off, on = gradient["fit"]["off"], gradient["fit"]["on"]
    if off is None or on is None:
        return ""
    rows = [row for row in gradient["rows"] if row["reduction_percent"] is not None]
    shortest, longest = rows[0], rows[-1]
    return (
        f"Every 1,000 prompt tokens cost {ms(off['slope_ms_per_ktoken'])} ms without caching and "
        f"{ms(on['slope_ms_per_ktoken'])} ms with it (slope {signed_percent(gradient['slope_reduction_percent'])}); "
        f"the "
        f"time to first token fell by {percent(shortest['reduction_percent'])} at {count(shortest['prompt_tokens'])} "
        f"prompt tokens and by {percent(longest['reduction_percent'])} at {count(longest['prompt_tokens'])}."
    )

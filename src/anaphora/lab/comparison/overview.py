"""Two runs at a glance: what a reader asks first of two servers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anaphora.lab.report.bills import amount
from anaphora.lab.report.words import count, interval, ms, percent, signed_percent
from anaphora.lab.token_costs import PRODUCT
from anaphora.lab.witnesses import told_rate
from anaphora.report.tables import Table

Results = Mapping[str, Any]
"""What ``results.json`` holds."""
Figures = Callable[[Mapping[str, Any]], Sequence[tuple[str, str]]]
"""Labels and texts of one experiment's results."""
_NONE = "–"
_CAUTION = (
    "Two servers differ in model, machine, network and queue, not in their cache alone: what caching does is told by "
    "off against on of one server, each in its own report."
)


def side_by_side(a: Results, b: Results) -> Table:
    """What a reader asks first of two servers: who they are, how fast, how much was cached, and at what price."""
    rows = [
        ("server", *(f"{one['target']['kind']} {one['target']['version'] or ''}".strip() for one in (a, b))),
        ("model", *(str(one["target"]["model"]) for one in (a, b))),
        ("off means", *(str(one["run"]["settings"]["mechanism"]) for one in (a, b))),
        *_rows("switch", a, b, _switch),
        *_rows("gradient", a, b, _gradient),
        *_rows("costs", a, b, _costs),
        *(row for name in ("scenarios", "prompts") for row in _rows(name, a, b, _groups)),
        *_money(a, b),
    ]
    return Table("Side by side", ("<", "<A", "<B"), tuple(rows), _CAUTION)


def _rows(name: str, a: Results, b: Results, figures: Figures) -> Sequence[tuple[str, str, str]]:
    """Those of one experiment, if both have it; a dash for what only one has."""
    if any(name not in one["experiments"] for one in (a, b)):
        return ()
    ours, theirs = (dict(figures(one["experiments"][name])) for one in (a, b))
    labels = dict.fromkeys((*ours, *theirs))
    return [(f"{name}: {label}", ours.get(label, _NONE), theirs.get(label, _NONE)) for label in labels]


def _switch(found: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    off, on = found["off"], found["on"]
    return (
        ("prompt tokens", count(found["rows"][0]["prompt_tokens"])),
        ("median TTFT, off (ms)", ms(off["ttft_ms_median"])),
        ("median TTFT, on (ms)", ms(on["ttft_ms_median"])),
        ("change of TTFT", signed_percent(found["reduction_percent"]["ttft"])),
        ("median E2E, on (ms)", ms(on["e2e_ms_median"])),
        *_cached(found),
    )


def _gradient(found: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    off, on = found["fit"]["off"], found["fit"]["on"]
    slopes = [None if line is None else line["slope_ms_per_ktoken"] for line in (off, on)]
    return (
        ("ms per 1000 tokens, off", ms(slopes[0])),
        ("ms per 1000 tokens, on", ms(slopes[1])),
        *_cached(found),
    )


def _costs(found: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    fit, steps = found["two_variable"], found["staircase"]["step_tokens"]
    names = {
        "fixed_ms": "a request",
        "computed_ms_per_ktoken": "1,000 computed",
        "cached_ms_per_ktoken": "1,000 cached",
        PRODUCT: "1,000 computed behind 1,000 cached, more",
    }
    terms = {} if fit is None else fit["terms"]
    return (
        *((f"{name} (ms)", _with_interval(terms.get(term))) for term, name in names.items()),
        ("steps of cached tokens", count(steps)),
        *_cached(found),
    )


def _with_interval(term: Mapping[str, Any] | None) -> str:
    return _NONE if term is None else f"{ms(term['value'])} ({interval(term['interval'])})"


def _groups(found: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Two lines for each group: what the cache does to its times, and how much of it hits."""
    lines: list[tuple[str, str]] = []
    for row in found["rows"]:
        times = f"{ms(row['off_ttft_ms'])} → {ms(row['on_ttft_ms'])} ({signed_percent(row['reduction_percent'])})"
        lines.append((f"{row['group']}, median TTFT off → on (ms)", times))
        lines.append((f"{row['group']}, from the cache", percent(told_rate(row["hit_rate_percent_after_first"]))))
    return lines


def _cached(found: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """As the answers tell it: the one witness that every sort of server can have."""
    return (
        ("prompt tokens from the cache, without the first", percent(told_rate(found["hit_rate_percent_after_first"]))),
    )


def _money(a: Results, b: Results) -> Sequence[tuple[str, str, str]]:
    """What 1000 requests cost with the cache, experiment by experiment; no rows where neither has prices."""
    bills = [
        {
            row["experiment"]: f"{amount(row['with_cache_per_1000'])} {money['prices']['currency']}"
            for row in money["rows"]
        }
        if (money := one.get("money")) is not None
        else {}
        for one in (a, b)
    ]
    names = dict.fromkeys(name for one in bills for name in one)
    ours, theirs = bills
    said = "no prices"
    return [(f"{name}: 1000 requests, with cache", ours.get(name, said), theirs.get(name, said)) for name in names]

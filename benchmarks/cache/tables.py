"""Kept results as the tables of ``docs/policies.md`` and ``docs/simulate.md``.

Standard library alone: ``scripts/generate_docs.py`` loads it.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.markdown import table

RESULTS = Path(__file__).parents[1] / "results" / "cache"
FIRST, LAST = "lru", "belady"


def conversation() -> str:
    """Every policy on the conversation trace: the half that nothing was tuned on, and all of it."""
    results = _read("policies")
    parts = []
    for name in ("conversation, reporting half", "conversation, reporting half (between)", "conversation"):
        if name not in results["sets"]:
            continue
        found = results["sets"][name]
        sizes = ", ".join(f"{size:,}" for size in found["capacity_blocks"])
        title = f"**{name[0].upper()}{name[1:]}**: {found['num_requests']:,} requests; capacities of {sizes} blocks.\n"
        head = ["policy", *(f"{100 * share:g} %" for share in found["shares"]), "gap closed, mean", "pooled"]
        parts.append(f"{title}\n{table(head, _policy_rows(found, results['default']), num_named=1)}")
    return "\n\n".join(parts)


def _policy_rows(found: dict[str, Any], ours: str) -> Iterable[Sequence[str]]:
    rates = found["token_hit_rate"]
    others = sorted(set(rates) - {FIRST, LAST, ours})
    for policy in (FIRST, *others, ours, LAST):
        if policy in rates:
            closed = found["gap_closed"][policy]
            shares = [_percent(closed["mean"]), _percent(closed["pooled"])]
            name = f"**`{policy}`** (the default)" if policy == ours else f"`{policy}`"
            yield [name, *(f"{100 * rate:.2f}" for rate in rates[policy]), *shares]


def everywhere() -> str:
    """The default policy against LRU on every set of requests but the tuning halves."""
    results = _read("policies")
    ours = results["default"]
    head = ["requests", "5 %", "10 %", "20 %", "40 %", "gap closed, mean", "pooled", "worst other"]
    rows = []
    for name, found in results["sets"].items():
        if name.endswith(_LEFT_OUT):
            continue
        rates = found["token_hit_rate"]
        closed = found.get("gap_closed", {}).get(ours, {"mean": None, "pooled": None})
        points = [f"{100 * (a - b):+.2f}" for a, b in zip(rates[ours], rates[FIRST], strict=True)]
        others = {policy: worst for policy, worst in found["worst_points_against_lru"].items() if policy in _OTHERS}
        worst = min(others, key=lambda policy: others[policy]) if others else ""
        shown = f"`{worst}` {others[worst]:+.2f}" if worst else ""
        rows.append([name, *points, _percent(closed["mean"]), _percent(closed["pooled"]), shown])
    return table(head, rows, num_named=1)


_OTHERS = ("fifo", "lfu", "s3fifo", "slru")
_LEFT_OUT = ("tuning half", "(between)")


def summary() -> str:
    """What was promised, in a sentence with its figures."""
    results = _read("policies")
    ours, sets = results["default"], results["sets"]
    half, tuned = (sets[f"conversation, {name} half"]["gap_closed"][ours] for name in ("reporting", "tuning"))
    whole = sets["conversation"]["gap_closed"][ours]
    shown = {name: found for name, found in sets.items() if not name.endswith(_LEFT_OUT)}
    name = min(shown, key=lambda name: shown[name]["worst_points_against_lru"][ours])
    worst = shown[name]["worst_points_against_lru"][ours]
    return (
        f"On the half of the conversation trace that nothing was tuned on, the default closes "
        f"**{_percent(half['mean'])}** of the gap between LRU and Belady on average over the four capacities "
        f"({_percent(half['pooled'])} pooled over them); on the tuning half {_percent(tuned['mean'])} "
        f"({_percent(tuned['pooled'])} pooled), on the whole trace {_percent(whole['mean'])} "
        f"({_percent(whole['pooled'])} pooled). Over {len(shown)} sets of requests at four capacities each, "
        f"its worst result against LRU is {worst:+.2f} points of token hit rate ({name})."
    )


def tuning() -> str:
    """What the default policy's constants do on the tuning half."""
    results = _read("tuning")
    head = ["constant", "value", "gap closed, mean", "pooled", "worst against LRU"]
    has_mixes = any(len(row["worst_points_against_lru"]) > 1 for row in results["rows"])
    head += ["on mixes"] if has_mixes else []
    rows = []
    for row in sorted(results["rows"], key=lambda row: sorted(row["change"].items())):
        names = ", ".join(f"`{name}` ({results['constants'][name]:g})" for name in row["change"]) or "as they are"
        values = ", ".join(f"{value:g}" for value in row["change"].values())
        closed, (here, *mixes) = row["gap_closed"], row["worst_points_against_lru"].values()
        worst = [f"{here:+.2f}", *([f"{min(mixes):+.2f}" if mixes else "–"] if has_mixes else [])]
        rows.append([names, values, _percent(closed["mean"]), _percent(closed["pooled"]), *worst])
    return table(head, rows, num_named=1)


def cost() -> str:
    """What a policy adds to the host path of a request that hits."""
    results = _read("policy_cost")
    head = ["requests", "policy", *(f"{name}, µs" for name in ("match", "explain", "admit", "commit", "free", "all"))]
    head += ["p99", "all, nothing to evict"]
    rows = []
    for name, found in results["sets"].items():
        hits = {(row["policy"], row["pool"]): row["hit"] for row in found["rows"]}
        policies = dict.fromkeys(policy for policy, _ in hits)
        for place, policy in enumerate(policies):
            tight, roomy = hits[policy, "10 %"], hits[policy, "no eviction"]
            means = [f"{value:.0f}" for value in tight["mean_us"].values()]
            spread = [f"{tight['all_us']['p99']:.0f}", f"{roomy['mean_us']['all']:.0f}"]
            rows.append([name if place == 0 else "", f"`{policy}`", *means, *spread])
    hardware = results["hardware"]
    facts = (
        f"{hardware['cpu']}, {hardware['cores']} cores, Python {results['python']}; the least of {results['rounds']}"
    )
    return (
        f"{facts} rounds for each operation of each request; means over the requests that found something.\n\n"
        + table(head, rows, num_named=1)
    )


def returns() -> str:
    """Who is returned to, by what is known when the request leaves."""
    parts = []
    for title, by in (("turn", "by turn"), ("added blocks", "by added blocks"), ("answer tokens", "by answer tokens")):
        head = ["set", title, "requests", "returned to"]
        rows = [
            [name if place == 0 else "", row["what"], f"{row['requests']:,}", _percent(row["returned"])]
            for name, found in _read("returns").items()
            for place, row in enumerate(found[by])
        ]
        parts.append(table(head, rows, num_named=1))
    return "\n\n".join(parts)


def sharing() -> str:
    """How often blocks are used again, and where in the prompt they are."""
    parts = []
    for title, by in (("uses after the first", "by uses"), ("place in the prompt, blocks from 0", "by place")):
        head = ["set", title, "share of blocks", "share of uses", "of these used again"]
        rows = [
            [name if place == 0 else "", _span(row), *(_percent(row[key]) for key in ("blocks", "uses", "used_again"))]
            for name, found in _read("returns").items()
            for place, row in enumerate(found[by])
        ]
        parts.append(table(head, rows, num_named=1))
    return "\n\n".join(parts)


def _span(row: dict[str, Any]) -> str:
    if row["to"] is None:
        return f"{row['from']} and more"
    return f"{row['from']}" if row["from"] == row["to"] else f"{row['from']} to {row['to']}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _read(name: str) -> dict[str, Any]:
    return dict[str, Any](json.loads((RESULTS / f"{name}.json").read_text("utf-8")))


def sampling() -> str:
    """Errors of samples of a trace against full replays."""
    numbers = ("raw_rmse", "rmse", "bias", "expected", "worst")
    rows = [
        (
            row["trace"].removesuffix(".jsonl.gz"),
            f"{row['rate']:g}",
            f"`{row['policy']}`",
            str(row["runs"]),
            *("unknown" if row[name] is None else f"{row[name]:.2f}".replace("-", "−") for name in numbers),
        )
        for row in _read("sampling")["summary"]
    ]
    head = ["trace", "`--sample`", "policy", "runs", "sample's own rate", "estimate", "its bias", "expected", "worst"]
    return table(head, rows, num_named=1)


TABLES: dict[str, Callable[[], str]] = {
    f"policies_{make.__name__}": make for make in (summary, conversation, everywhere, tuning, cost, returns, sharing)
} | {"sampling": sampling}

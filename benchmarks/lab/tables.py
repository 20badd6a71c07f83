"""The lab's kept results as the tables of ``docs/performance.md``.

Standard library alone: ``scripts/generate_docs.py`` loads it.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.markdown import table

RESULTS = Path(__file__).parents[1] / "results" / "lab"
_NAMES = {
    "fixed_ms": "a request, ms",
    "computed_ms_per_ktoken": "1000 computed tokens, ms",
    "cached_ms_per_ktoken": "1000 cached tokens, ms",
    "computed_squared_ms_per_ktoken2": "the square of these thousands of computed tokens, ms",
    "computed_cached_ms_per_ktoken2": "1000 computed tokens behind 1000 cached ones, ms more",
}


def token_costs() -> str:
    """The fit of the kept `bench costs`: values, intervals, and how well the formula holds."""
    results = json.loads((RESULTS / "costs" / "results.json").read_text("utf-8"))
    costs, environment = results["experiments"]["costs"], results["environment"]
    fit, stairs = costs["two_variable"], costs["staircase"]
    found = [(_NAMES[name], term["value"], term["interval"]) for name, term in fit["terms"].items()]
    step = f"{stairs['step_tokens']} tokens more from the cache save, ms"
    found.append((step, stairs["step_ms"], stairs["step_ms_interval"]))
    rows = [(name, f"{value:,.1f}", _range(span)) for name, value, span in found]
    where = f"{environment['num_cpus']} cores of {environment['processor']}, {results['run']['started_at'][:10]}"
    note = (
        f"{where}; {fit['num_points']} requests, and {fit['num_strays']} left out that something else held up; the "
        f"formula explains R² = {fit['r2']:.3f}. {_shorter(fit['without_product'])}"
    )
    return f"{table(['what is paid for', 'value', '95 % interval'], rows, num_named=1)}\n\n{note}"


def _shorter(fit: Mapping[str, Any]) -> str:
    cached = fit["terms"]["cached_ms_per_ktoken"]
    return (
        f"Without computed · cached it would be R² = {fit['r2']:.3f}, Akaike's criterion would be worse by "
        f"{fit['aicc_more']:,.0f}, and 1000 cached tokens would seem to cost {cached['value']:,.1f} ms "
        f"({_range(cached['interval'])})."
    )


def _range(span: Mapping[str, float]) -> str:
    return f"{span['low']:,.1f} to {span['high']:,.1f}".replace("-", "−")


def formula_choice() -> str:
    """Of each planted product and each rule, how often the least covered term was covered."""
    kept = json.loads((RESULTS / "formula_choice.json").read_text("utf-8"))
    rules = list(dict.fromkeys(row["rule"] for row in kept["rows"]))
    by_product: dict[float, dict[str, str]] = {}
    for row in kept["rows"]:
        worst = min(row["percent_covered"].values())
        by_product.setdefault(row["planted_product_ms"], {})[row["rule"]] = f"{worst:.0f} %"
    rows = [(f"{product:g} ms", *(found[rule] for rule in rules)) for product, found in by_product.items()]
    return table(["planted", *rules], rows, num_named=1)


TABLES: Mapping[str, Callable[[], str]] = {"token_costs": token_costs, "formula_choice": formula_choice}

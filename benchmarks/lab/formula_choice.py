"""Should the noise decide whether computed · cached is a term of what tokens cost? Intervals under four rules.

    python -m benchmarks.lab.formula_choice [OUT.json] [--runs 1000]

Runs of `bench costs` are planted with products of several sizes; each is fitted with the product and without, one of
the two fits is taken by the rule, and it is counted how often its intervals hold the truth. A rule that looks at the
noise leaves the product out where it is small and yet there, and charges it to the other terms.
"""

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.lab import planted
from benchmarks.lab.estimates import tokens_of
from benchmarks.lab.planted import Noise, Planted

from anaphora.lab.experiments.costs import STAIRCASE
from anaphora.lab.timings import ttft_ms
from anaphora.lab.token_costs import ALL_TERMS, PRODUCT, TERMS, Point, Terms, TokenCosts, fit_token_costs
from anaphora.traces.records import RequestRecord

OUT = Path(__file__).parents[1] / "results" / "lab" / "formula_choice.json"
PRODUCTS = (0.0, 1.0, 2.0, 3.0, 4.0, 8.0)
NOISE = Noise(share=0.02)


def _by_t_test(costs: TokenCosts) -> bool:
    interval = costs.terms.intervals[PRODUCT]
    return not interval.low <= 0 <= interval.high


RULES: Mapping[str, Callable[[TokenCosts], bool]] = {
    "always a term": lambda _: True,
    "never a term": lambda _: False,
    "a term if its interval excludes 0": _by_t_test,
    "a term if AICc is lower with it": lambda costs: (costs.aicc_without_product or 0.0) > 0,
}


def fitted(truth: Planted, seed: int) -> TokenCosts:
    """One run's fit with the product, which holds the one without."""
    records = planted.costs(truth, NOISE, np.random.default_rng((seed, round(10 * truth.product_ms))))
    costs = fit_token_costs([_point(one) for one in records if one.label != STAIRCASE], tries_product=True)
    assert costs is not None
    return costs


def _point(record: RequestRecord) -> Point:
    time = ttft_ms(record)
    assert time is not None
    return Point(record.label, *tokens_of(record), time)


def rows_of(product_ms: float, num_runs: int) -> list[dict[str, Any]]:
    """How often each rule took the product, and how often each term's interval held the truth, in per cent."""
    truth = replace(Planted(), product_ms=product_ms)
    runs = [fitted(truth, seed) for seed in range(num_runs)]
    return [_row(name, rule, truth, runs) for name, rule in RULES.items()]


def _row(name: str, rule: Callable[[TokenCosts], bool], truth: Planted, runs: list[TokenCosts]) -> dict[str, Any]:
    taken = [_taken(costs, rule(costs)) for costs in runs]
    truths = dict(zip(ALL_TERMS, astuple(truth), strict=True))
    return {
        "planted_product_ms": truth.product_ms,
        "rule": name,
        "num_runs": len(runs),
        "percent_with_product": _percent([PRODUCT in terms.values for terms in taken]),
        "percent_covered": {
            term: _percent([terms.intervals[term].low <= truths[term] <= terms.intervals[term].high for terms in taken])
            for term in TERMS
        },
        "median_width_of_cached_ms": round(float(np.median([_width(terms) for terms in taken])), 3),
    }


def _taken(costs: TokenCosts, has_product: bool) -> Terms:
    assert costs.without_product is not None
    return costs.terms if has_product else costs.without_product


def _width(terms: Terms) -> float:
    interval = terms.intervals["cached_ms_per_ktoken"]
    return interval.high - interval.low


def _percent(flags: list[bool]) -> float:
    return round(100 * float(np.mean(flags)), 1)


def main() -> None:
    """Count, and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("out", nargs="?", type=Path, default=OUT)
    parser.add_argument("--runs", type=int, default=1000)
    options = parser.parse_args()
    rows = [row for product in PRODUCTS for row in rows_of(product, options.runs)]
    about = {
        "what": "intervals at 95 % of the token costs of planted records, by the rule that chooses the formula",
        "command": f"python -m benchmarks.lab.formula_choice --runs {options.runs}",
        "planted": f"{Planted()!r}, but for the product; noise {NOISE.name}",
    }
    options.out.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n", "utf-8")
    for row in rows:
        print(*row.values(), sep=" · ")


if __name__ == "__main__":
    main()

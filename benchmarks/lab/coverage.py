"""Do the lab's intervals hold what they say? Runs with planted truths, through the analyses that reports are made by.

    python -m benchmarks.lab.coverage [OUT.json] [--runs 100]

Every parameter is planted, a run is made of seeded noise around it, the experiment's own ``analyse`` gives a value and
an interval, and it is counted how often the interval holds the truth and how wide it is beside the width that follows
from theory for the same design when the noise is known. Then pairs of runs are compared: with no difference, to count
false alarms, and with one of 5 %, to count how often it is found.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.lab import planted
from benchmarks.lab.planted import (
    BLOCK_SIZE,
    ENDING_OF_STAIRS,
    ENDINGS,
    LENGTHS,
    PREFIXES,
    STEP_TOKENS,
    STEPS,
    Noise,
    Planted,
)

from anaphora.lab import statistics
from anaphora.lab.comparison.difference import difference
from anaphora.lab.comparison.quantities import places, quantities_of
from anaphora.lab.experiments import costs, gradient, switch
from anaphora.lab.token_costs import TERMS

OUT = Path(__file__).parents[1] / "results" / "lab" / "coverage.json"
REPEATS = 5
QUESTIONS = 8
SIGMA_MS, SIGMA = 4.0, 0.02
NOISES: Mapping[str, Noise] = {
    f"constant, {SIGMA_MS:g} ms": planted.constant(SIGMA_MS),
    f"in proportion, {SIGMA:.0%}": planted.proportional(SIGMA),
}
TRUE = Planted()
OFF_MS, ON_MS = 300.0, 45.0
EFFECT = 0.05
EFFECT_NOISES = (0.01, 0.02, 0.03)
BETWEEN_ARMS = "one run: switch, on against off"
COMPARED: Mapping[str, tuple[str, str] | None] = {
    "two runs: switch, median TTFT with caching on": ("switch.1500", "ttft_on_p50"),
    "two runs: gradient, median TTFT at one length": (f"gradient.{LENGTHS[2]}", "ttft_on_p50"),
    "two runs: gradient, slope with caching off": ("gradient", "slope_off"),
    BETWEEN_ARMS: None,
}
_Z = 1.959964

Estimate = tuple[str, float, float, dict[str, float]]
"""Name, planted value, width by theory, and the interval found."""


def sigma_of(noise_name: str, time_ms: float) -> float:
    """The noise's standard deviation at a time."""
    return SIGMA_MS if noise_name.startswith("constant") else SIGMA * time_ms


def lines_of(noise_name: str, rng: np.random.Generator, seed: int) -> Iterator[Estimate]:
    """Slopes and intercepts of a gradient; the truth is the line through the times without noise."""
    found = gradient.analyse(planted.gradient(TRUE, NOISES[noise_name], rng, repeats=REPEATS), seed=seed)
    tokens = np.array(LENGTHS, dtype=float)
    for arm in ("off", "on"):
        cached = np.array([planted.cached_of(length) if arm == "on" else 0 for length in LENGTHS], dtype=float)
        times = np.array([TRUE.ttft_ms(n - c, c) for n, c in zip(tokens, cached, strict=True)])
        slope, intercept = statistics.lines_through(tokens, times)
        design = np.column_stack([tokens / 1000, np.ones_like(tokens)])
        weights = np.linalg.pinv(design)
        variances = np.array([sigma_of(noise_name, time) ** 2 for time in times]) / REPEATS
        widths = 2 * _Z * np.sqrt(weights**2 @ variances)
        line = found["fit"][arm]
        yield f"slope, {arm}", float(slope), float(widths[0]), line["slope_interval"]
        yield f"intercept, {arm}", float(intercept), float(widths[1]), line["intercept_interval"]


def costs_of(noise_name: str, rng: np.random.Generator, seed: int) -> Iterator[Estimate]:
    """The two-variable fit and the block step."""
    found = costs.analyse(planted.costs(TRUE, NOISES[noise_name], rng, repeats=REPEATS), seed=seed)
    truths = (TRUE.fixed_ms, TRUE.computed_ms, TRUE.cached_ms, TRUE.squared_ms)
    cells = [(ending, prefix) for prefix in PREFIXES for ending in ENDINGS for _ in range(REPEATS)]
    design = np.array([(1, n / 1000, m / 1000, (n / 1000) ** 2) for n, m in cells])
    widths = _least_width(design, np.array([sigma_of(noise_name, TRUE.ttft_ms(n, m)) for n, m in cells]))
    for name, truth, width in zip(TERMS, truths, widths, strict=True):
        yield name, truth, float(width), found["two_variable"]["terms"][name]["interval"]
    lengths = [512 + STEP_TOKENS * step for step in range(STEPS) for _ in range(REPEATS)]
    stairs = np.array([(1, n + ENDING_OF_STAIRS, n // BLOCK_SIZE) for n in lengths], dtype=float)
    sigma = sigma_of(noise_name, TRUE.ttft_ms(ENDING_OF_STAIRS + BLOCK_SIZE / 2, lengths[0]))
    width = _least_width(stairs, np.full(len(lengths), sigma))[2]
    yield "block step", TRUE.step_ms, float(width), found["staircase"]["step_ms_interval"]


def medians_of(noise_name: str, rng: np.random.Generator, seed: int) -> Iterator[Estimate]:
    """The medians of a switch, and the reduction between them."""
    records = planted.switch(OFF_MS, ON_MS, NOISES[noise_name], rng, questions=QUESTIONS)
    found = switch.analyse(records, seed=seed)
    per_median = np.sqrt(np.pi / 2 / (QUESTIONS - 1))
    off, on = (per_median * sigma_of(noise_name, time) for time in (OFF_MS, ON_MS))
    yield "median TTFT, off", OFF_MS, float(2 * _Z * off), found["off"]["ttft_ms_interval"]
    yield "median TTFT, on", ON_MS, float(2 * _Z * on), found["on"]["ttft_ms_interval"]
    ratio = ON_MS / OFF_MS
    width = 2 * _Z * ratio * 100 * np.hypot(off / OFF_MS, on / ON_MS)
    yield "reduction", (1 - ratio) * 100, float(width), found["reduction_percent_interval"]["ttft"]


def _least_width(design: np.ndarray[Any, Any], sigmas: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Full widths at 95 % of the best linear estimate when every standard deviation is known."""
    weighted = design / sigmas[:, None]
    return np.asarray(2 * _Z * np.sqrt(np.diag(np.linalg.inv(weighted.T @ weighted))))


def coverage(num_runs: int) -> list[dict[str, Any]]:
    """One row for each parameter and kind of noise."""
    rows = []
    for number, noise_name in enumerate(NOISES):
        covered: dict[str, list[bool]] = {}
        ratios: dict[str, list[float]] = {}
        for seed in range(num_runs):
            for part, estimates in enumerate((lines_of, costs_of, medians_of)):
                rng = np.random.default_rng((seed, number, part))
                for name, truth, width, interval in estimates(noise_name, rng, seed):
                    covered.setdefault(name, []).append(interval["low"] <= truth <= interval["high"])
                    ratios.setdefault(name, []).append((interval["high"] - interval["low"]) / width)
        rows += [
            {
                "parameter": name,
                "noise": noise_name,
                "num_runs": num_runs,
                "num_covered": sum(covered[name]),
                "median_width_over_theory": round(float(np.median(ratios[name])), 3),
            }
            for name in covered
        ]
    return rows


def effects(num_runs: int) -> list[dict[str, Any]]:
    """How often a difference is called more than chance: where there is none, and where there are 5 %."""
    return [
        {
            "compared": name,
            "planted_effect_percent": 100 * effect,
            "noise_percent": 100 * sigma,
            "num_runs": num_runs,
            "num_called": sum(_calls(sigma, effect, seed)[name] for seed in range(num_runs)),
        }
        for sigma in EFFECT_NOISES
        for effect in (0.0, EFFECT)
        for name in COMPARED
    ]


@cache
def _calls(sigma: float, effect: float, seed: int) -> Mapping[str, bool]:
    """What is called a difference: between two runs, the second slower by ``effect`` throughout, and between arms."""
    noise, rng = planted.proportional(sigma), np.random.default_rng((seed, int(1e4 * sigma), int(1e4 * effect)))
    factor = 1 + effect
    true = Planted(squared_ms=0)
    slower = Planted(true.fixed_ms * factor, true.computed_ms * factor, true.cached_ms * factor, 0)
    a = [*planted.switch(OFF_MS, ON_MS, noise, rng), *planted.gradient(true, noise, rng)]
    b = [*planted.switch(OFF_MS, ON_MS * factor, noise, rng), *planted.gradient(slower, noise, rng)]
    one, other = (quantities_of(places(planted.as_run(records, "r"))) for records in (a, b))
    called = {
        name: difference(one[key], other[key], seed=seed).is_chance is False for name, key in COMPARED.items() if key
    }
    arms = switch.analyse(planted.switch(OFF_MS, OFF_MS * (1 - effect), noise, rng), seed=seed)
    interval = arms["reduction_percent_interval"]["ttft"]
    return {**called, BETWEEN_ARMS: not interval["low"] <= 0 <= interval["high"]}


def main() -> None:
    """Count, and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("out", nargs="?", type=Path, default=OUT)
    parser.add_argument("--runs", type=int, default=100)
    options = parser.parse_args()
    rows, calls = coverage(options.runs), effects(options.runs)
    found = {
        "what": "intervals at 95 % of the lab's own analyses on planted records, in virtual time",
        "command": f"python -m benchmarks.lab.coverage --runs {options.runs}",
        "design": {
            "lengths": LENGTHS,
            "repeats": REPEATS,
            "questions": QUESTIONS,
            "prefixes": PREFIXES,
            "endings": ENDINGS,
        },
        "coverage": rows,
        "effects": calls,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    for row in (*rows, *calls):
        print(*row.values(), sep=" · ")


if __name__ == "__main__":
    main()

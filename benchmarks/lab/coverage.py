"""Do the lab's intervals hold what they say? Runs with planted truths, through the analyses that reports are made by.

    python -m benchmarks.lab.coverage [OUT.json] [--runs 100] [--sets 3]
    python -m benchmarks.lab.coverage --over sockets [OUT.json] [--runs 100]

Every parameter is planted, a run is made of seeded noise around it, the experiment's own ``analyse`` gives a value and
an interval, and it is counted how often the interval holds the truth and how wide it is beside the width that follows
from theory for the same design when the noise is known. Then pairs of runs are compared: with no difference, to count
false alarms, and with one of 5 %, to count how often it is found. In virtual time runs come in sets of 100, each
counted apart. Runs over sockets (:mod:`benchmarks.lab.over_sockets`) are kept one by one beside the counts, and gone on
with if they were cut short.
"""

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.lab import over_sockets, planted
from benchmarks.lab.estimates import BETWEEN_ARMS, Estimate, arms_differ, differs, estimates_of
from benchmarks.lab.planted import Noise, Planted, as_run

from anaphora.lab.calibration.server_process import timed_server

RESULTS = Path(__file__).parents[1] / "results" / "lab"
OUT, OUT_OF_SOCKETS = RESULTS / "coverage.json", RESULTS / "coverage_sockets.json"
TRUE, LINEAR = Planted(), Planted(squared_ms=0, product_ms=0)
NOISES = (Noise(constant_ms=4.0), Noise(share=0.02))
EFFECT = 0.05
EFFECT_NOISES = (Noise(share=0.01), Noise(share=0.02), Noise(share=0.03))

Row = dict[str, Any]


def coverage_of(seeds: Sequence[int], noise: Noise) -> list[list[Estimate]]:
    """What the runs of these seeds find, parameter by parameter."""
    found = []
    for seed in seeds:
        rng = np.random.default_rng((seed, NOISES.index(noise)))
        records = [make(TRUE, noise, rng) for make in (planted.gradient, planted.costs, planted.switch)]
        found.append(list(estimates_of([one for part in records for one in part], TRUE, noise, seed)))
    return found


def coverage_rows(runs: Sequence[Sequence[Estimate]], noise: Noise, num_sets: int) -> list[Row]:
    """One row for each parameter; of ``num_covered`` one number for each set of runs."""
    return [
        {
            "parameter": of_one[0].name,
            "noise": noise.name,
            "num_runs": len(runs) // num_sets,
            "num_covered": _by_set([one.covers for one in of_one], num_sets),
            "median_width_over_theory": round(float(np.median([one.width_over_theory for one in of_one])), 3),
        }
        for of_one in zip(*runs, strict=True)
    ]


def effect_rows(calls: Sequence[Mapping[str, bool]], noise: Noise, effect: float, num_sets: int) -> list[Row]:
    """How often a difference is called more than chance."""
    return [
        {
            "compared": name,
            "planted_effect_percent": 100 * effect,
            "noise": noise.name,
            "num_runs": len(calls) // num_sets,
            "num_called": _by_set([call[name] for call in calls], num_sets),
        }
        for name in calls[0]
    ]


def _by_set(flags: Sequence[bool], num_sets: int) -> list[int]:
    return [int(sum(part)) for part in np.array(flags).reshape(num_sets, -1)]


def called(noise: Noise, effect: float, seed: int) -> Mapping[str, bool]:
    """What is called a difference: between two runs, the second slower by ``effect`` throughout, and between arms."""
    rng = np.random.default_rng((seed, round(1e4 * noise.share), round(1e4 * effect)))
    a, b = (
        as_run([*planted.switch(true, noise, rng), *planted.gradient(true, noise, rng)], "r")
        for true in (LINEAR, LINEAR.slower(effect))
    )
    arms = planted.switch(LINEAR.gaining(effect), noise, rng)
    return {**differs(a, b, seed), BETWEEN_ARMS: arms_differ(arms, seed)}


def in_virtual_time(num_runs: int, num_sets: int) -> dict[str, list[Row]]:
    """Both tables."""
    seeds = range(num_runs * num_sets)
    covered = [coverage_rows(coverage_of(seeds, noise), noise, num_sets) for noise in NOISES]
    effects = [
        effect_rows([called(noise, effect, seed) for seed in seeds], noise, effect, num_sets)
        for noise in EFFECT_NOISES
        for effect in (0.0, EFFECT)
    ]
    return {"coverage": list(chain(*covered)), "effects": list(chain(*effects))}


def of_socket_runs(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Both tables from the raw rows of :mod:`benchmarks.lab.over_sockets`."""
    runs = [[Estimate(**one) for one in row["estimates"]] for row in rows]
    effects = [
        effect_rows([row[key] for row in rows], over_sockets.NOISE, effect, 1)
        for key, effect in (("called_without_effect", 0.0), ("called_with_effect", EFFECT))
    ]
    return {
        "planted": asdict(over_sockets.TRUE),
        "median_transport_ms": float(np.median([row["transport_ms"] for row in rows])),
        "coverage": coverage_rows(runs, over_sockets.NOISE, 1),
        "effects": list(chain(*effects)),
    }


async def run_over_sockets(raw: Path, num_runs: int) -> list[dict[str, Any]]:
    """The rows of ``raw``, and behind them those of the seeds that it lacks."""
    rows = [json.loads(line) for line in raw.read_text("utf-8").splitlines()] if raw.exists() else []
    async with timed_server(over_sockets.SERVER) as base:
        for seed in range(len(rows), num_runs):
            rows.append(await over_sockets.measured(base, seed, EFFECT))
            with raw.open("a", encoding="utf-8") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    return rows[:num_runs]


def main() -> None:
    """Count, and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--over", choices=("virtual", "sockets"), default="virtual")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--sets", type=int, default=3)
    options = parser.parse_args()
    out = options.out or (OUT if options.over == "virtual" else OUT_OF_SOCKETS)
    out.parent.mkdir(parents=True, exist_ok=True)
    if options.over == "virtual":
        words = f"--runs {options.runs} --sets {options.sets}"
        found = in_virtual_time(options.runs, options.sets)
    else:
        words = f"--over sockets --runs {options.runs}"
        found = of_socket_runs(asyncio.run(run_over_sockets(out.with_suffix(".jsonl"), options.runs)))
    what = {"virtual": "planted records, in virtual time", "sockets": "runs over loopback sockets with planted times"}
    about = {
        "what": f"intervals at 95 % of the lab's own analyses on {what[options.over]}",
        "command": f"python -m benchmarks.lab.coverage {words}",
    }
    out.write_text(json.dumps({**about, **found}, indent=1) + "\n", "utf-8")
    for row in (*found["coverage"], *found["effects"]):
        print(*row.values(), sep=" · ")


if __name__ == "__main__":
    main()

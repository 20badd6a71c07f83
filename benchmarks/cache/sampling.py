"""How wrong a sample of a trace is: `--sample` against the full replay, over rates, draws, policies and capacities.

    python -m benchmarks.cache.sampling TRACE [TRACE ...] --out benchmarks/results/cache/sampling.json

For each rate, ``--draws`` disjoint samples are taken; draw 0 is the one that `anaphora simulate --sample` takes.
Errors are estimate minus full replay of the token hit rate by the engine's rule, in points. ``raw``: the sample's own
rate in the same run, uncorrected. ``expected``: what the run itself gives as one standard error; ``within_2``: the
share of runs whose error is at most twice that. ``--out`` is added to: rows of the same trace and policy are replaced.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from math import sqrt
from pathlib import Path
from typing import Any

from anaphora.errors import ConfigError
from anaphora.sim.prompt_blocks import cut_into_blocks
from anaphora.sim.sampled_sweep import SampledSweep
from anaphora.sim.sampling import sample
from anaphora.sim.sweep import RunPlan, Sweep
from anaphora.traces.reader import read_trace

SHARES = (0.05, 0.1, 0.2, 0.4)
RATES = (0.1, 0.03, 0.01)
POLICIES = ("default", "lru", "slru", "belady")


def rows_of(path: Path, policy: str, num_draws: int) -> Iterator[dict[str, Any]]:
    """One row for each rate, draw and capacity."""
    trace = read_trace(path)
    prompts = cut_into_blocks(trace)
    whole = Sweep(prompts)
    plans = [RunPlan(policy, int(share * whole.working_set)) for share in SHARES]
    started = time.perf_counter()
    truth = {plan: run.to_json()["token_hit_rate"] for plan, run in zip(plans, _all(whole, plans), strict=True)}
    full_s = time.perf_counter() - started
    for rate in RATES:
        for draw in range(min(num_draws, int(1 / rate))):
            try:
                drawn = sample(prompts, rate, draw=draw)
            except ConfigError:
                continue
            started = time.perf_counter()
            runs = _all(SampledSweep(whole, drawn), plans)
            taken_s = time.perf_counter() - started
            for plan, run in zip(plans, runs, strict=True):
                found = run.to_json()
                yield {
                    "trace": path.name,
                    "rate": rate,
                    "draw": draw,
                    "requests": len(drawn.prompts),
                    "policy": policy,
                    "share": SHARES[plans.index(plan)],
                    "capacity_blocks": plan.num_blocks,
                    "sampled_capacity_blocks": found["sampled_capacity_blocks"],
                    "full": round(truth[plan], 6),
                    "estimate": round(found["token_hit_rate"], 6),
                    "expected_error": found["token_hit_rate_error"],
                    "raw": round(found["sampled_token_hit_rate"], 6),
                    "speedup": round(full_s / taken_s, 1),
                }


def _all(sweep: Sweep | SampledSweep, plans: Sequence[RunPlan]) -> list[Any]:
    return list(sweep.run_all(plans, lambda num_done: None))


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Over draws and capacities, by trace, rate and policy; in points of hit rate."""
    groups: dict[tuple[str, float, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["trace"], row["rate"], row["policy"]), []).append(row)
    return [
        {"trace": trace, "rate": rate, "policy": policy, "runs": len(group), **_errors(group)}
        for (trace, rate, policy), group in groups.items()
    ]


def _errors(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    errors = [100 * (row["estimate"] - row["full"]) for row in rows]
    raw = [100 * (row["raw"] - row["full"]) for row in rows]
    known = [(abs(e), 100 * row["expected_error"]) for e, row in zip(errors, rows, strict=True) if _is_known(row)]
    return {
        "raw_rmse": _rms(raw),
        "bias": round(sum(errors) / len(errors), 2),
        "rmse": _rms(errors),
        "worst": round(max(map(abs, errors)), 2),
        "expected": _rms([expected for _, expected in known]) if known else None,
        "within_2": round(sum(e <= 2 * x + 0.05 for e, x in known) / len(known), 2) if known else None,
        "speedup": round(sum(row["speedup"] for row in rows) / len(rows), 1),
    }


def _is_known(row: dict[str, Any]) -> bool:
    return row["expected_error"] is not None


def _rms(values: Sequence[float]) -> float:
    return round(sqrt(sum(value * value for value in values) / len(values)), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=Path, nargs="+", help="traces of block hashes or token ids")
    parser.add_argument("--policy", action="append", help="repeatable; all of the usual ones if none")
    parser.add_argument("--draws", type=int, default=4, help="disjoint samples at each rate")
    parser.add_argument("--out", type=Path, help="a JSON file to write")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for path in options.traces:
        for policy in options.policy or POLICIES:
            rows += rows_of(path, policy, options.draws)
    measured = {(row["trace"], row["policy"]) for row in rows}
    if options.out and options.out.exists():
        kept = json.loads(options.out.read_text("utf-8"))["rows"]
        rows = [row for row in kept if (row["trace"], row["policy"]) not in measured] + rows
    found = {"summary": summary(rows), "rows": rows}
    for line in found["summary"]:
        print(json.dumps(line))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""The constants of the default policy, one changed at a time, on the tuning half of the conversation trace.

    python -m benchmarks.cache.tuning FOLDER --out benchmarks/results/cache/tuning.json --jobs 2

The reporting half is not looked at. ``--mixes`` adds the worst loss against LRU over the same capacities on mixes, of a
seed that is not reported either.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from benchmarks.cache.mixes import make_mix
from benchmarks.cache.policies import BELADY, MIX_REQUESTS, Arena, compare, load_set

from anaphora.kvcache.eviction import DEFAULT_POLICY, default, life_table, return_rates, visit

CONSTANTS: Mapping[str, tuple[ModuleType, tuple[float, ...]]] = {
    "MIN_RETURNS": (default, (50, 800)),
    "LEARN_EVERY": (default, (32, 64, 256)),
    "MARGIN": (default, (0.7, 0.9, 1.0)),
    "HALF_LIFE": (life_table, (2048, 8192)),
    "TRUST": (return_rates, (1.5, 6.0)),
    "KIND_TRUST": (return_rates, (2.0, 4.0, 16.0)),
    "ANSWER_TRUST": (return_rates, (0.5, 4.0)),
    "HORIZON": (return_rates, (0.25, 1.0)),
    "BRIEF_ANSWER_TOKENS": (visit, (0, 32, 48, 96)),
}
TUNING_SET = "conversation, tuning half"
TUNING_MIXES = ("many_tenants", "agents", "fashions", "day_and_night")
TUNING_SEED = 11

Change = dict[str, float]


def changes() -> Iterator[Change]:
    """None, and then each constant at each other value."""
    yield {}
    for name, (module, values) in CONSTANTS.items():
        yield from ({name: value} for value in values if value != getattr(module, name))


@contextmanager
def changed(change: Change) -> Iterator[None]:
    """Constants have these values meanwhile."""
    with ExitStack() as stack:
        for name, value in change.items():
            stack.enter_context(patch.object(CONSTANTS[name][0], name, value))
        yield


@lru_cache(maxsize=8)
def _arena(name: str, folder: Path) -> tuple[Arena, dict[str, list[float]]]:
    """A set of requests, and what its two bounds do with it."""
    trace = load_set(name, folder) if name == TUNING_SET else make_mix(name, TUNING_SEED, MIX_REQUESTS)
    arena = Arena(trace)
    return arena, {policy: [arena.hit_rate(policy, size) for size in arena.capacities] for policy in ("lru", BELADY)}


def score(change: Change, folder: Path, mixes: Sequence[str]) -> dict[str, Any]:
    """What the default policy does with changed constants."""
    row: dict[str, Any] = {"change": change, "worst_points_against_lru": {}}
    for name in (TUNING_SET, *mixes):
        arena, bounds = _arena(name, folder)
        with changed(change):
            rates = [arena.hit_rate(DEFAULT_POLICY, size) for size in arena.capacities]
        result = compare({**bounds, DEFAULT_POLICY: rates})
        row["worst_points_against_lru"][name] = result["worst_points_against_lru"][DEFAULT_POLICY]
        if name == TUNING_SET:
            row["gap_closed"] = result["gap_closed"][DEFAULT_POLICY]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the traces lie")
    parser.add_argument("--out", type=Path, required=True, help="a JSON file to write, or to bring up to date")
    parser.add_argument("--change", type=json.loads, action="append", help='such as \'{"MARGIN": 0.9, "TRUST": 2}\'')
    parser.add_argument("--mixes", action="store_true", help="look at mixes too")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {"rows": []}
    results["constants"] = {name: getattr(module, name) for name, (module, _) in CONSTANTS.items()}
    mixes = TUNING_MIXES if options.mixes else ()
    known = [row["change"] for row in results["rows"] if len(row["worst_points_against_lru"]) > len(mixes)]
    wanted = [change for change in options.change or changes() if change not in known]
    results["rows"] = [row for row in results["rows"] if row["change"] not in wanted]
    with ProcessPoolExecutor(options.jobs) as workers:
        for future in as_completed([workers.submit(score, change, options.folder, mixes) for change in wanted]):
            results["rows"].append(future.result())
            print(results["rows"][-1], flush=True)
            options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

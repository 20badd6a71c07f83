"""What an eviction policy costs the host path of a request: the same requests under each, operation by operation.

    python -m benchmarks.cache.policy_cost FOLDER --out benchmarks/results/cache/policy_cost.json

A replay does the same every time, so each operation of each request is timed in several rounds and the least time
counts: what others do on the machine falls out, what the operation itself does (a policy that learns anew, a heap that
is cleaned up) stays. ``hit``: requests that found something. The pool has 10 % of the blocks of the working set, so
that there is always something to evict; ``no eviction``: it has room for all.
"""

import argparse
import gc
import json
import os
import platform
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from benchmarks.cache.policies import Arena, load_set
from benchmarks.cpu.procfs import describe_hardware

from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.eviction import EVICTION_POLICIES
from anaphora.kvcache.manager import KVCacheManager
from anaphora.sim.prompt_blocks import PromptBlocks
from anaphora.types import RequestId

SETS = ("mix tenants, seed 1",)
OPERATIONS = ("match", "explain", "admit", "commit", "free")
SHARE = 0.1
NUM_ROUNDS = 5
A = RequestId("a")
Times = list[list[int]]
"""For each request the nanoseconds of each operation."""


def replay(prompts: Sequence[PromptBlocks], config: CacheConfig) -> tuple[Times, list[bool]]:
    """One round; with which requests found something."""
    manager = KVCacheManager(config)
    times: Times = []
    hits: list[bool] = []
    gc.collect()
    gc.disable()
    for step, prompt in enumerate(prompts):
        tokens = prompt.for_engine()
        if prompt.num_blocks > config.num_blocks:
            tokens = prompt.for_engine(config.num_blocks)
        stamps = [perf_counter_ns()]
        match = manager.match(prompt.namespace, tokens)
        stamps.append(perf_counter_ns())
        manager.explain(match)
        stamps.append(perf_counter_ns())
        assert manager.admit(A, match, tokens.num_tokens, step=step)
        stamps.append(perf_counter_ns())
        manager.commit(A, tokens.num_tokens)
        stamps.append(perf_counter_ns())
        manager.free(A, num_answer_tokens=prompt.num_output_tokens)
        stamps.append(perf_counter_ns())
        times.append([after - before for before, after in pairwise(stamps)])
        hits.append(bool(match.num_blocks))
    gc.enable()
    return times, hits


def least(rounds: Sequence[Times]) -> Times:
    """Operation by operation, the least of all rounds."""
    return [[min(column) for column in zip(*same, strict=True)] for same in zip(*rounds, strict=True)]


def summary(times: Times) -> dict[str, Any]:
    """Microseconds: means of each operation, and how the whole is spread."""
    totals = sorted(sum(row) for row in times)
    means = [sum(column) / len(times) / 1000 for column in zip(*times, strict=True)]
    places = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
    spread = {name: round(totals[int(place * (len(totals) - 1))] / 1000, 1) for name, place in places.items()}
    by_operation = {name: round(mean, 2) for name, mean in zip(OPERATIONS, means, strict=True)}
    return {"requests": len(times), "mean_us": {**by_operation, "all": round(sum(means), 2)}, "all_us": spread}


def measure(name: str, folder: Path) -> dict[str, Any]:
    """Every policy on a set of requests, in turns."""
    arena = Arena(load_set(name, folder))
    pools = {"10 %": max(1, int(SHARE * arena.working_set)), "no eviction": 2 * arena.working_set}
    rounds: dict[tuple[str, str], list[Times]] = {}
    hits: dict[tuple[str, str], list[bool]] = {}
    for _ in range(NUM_ROUNDS):
        for policy in EVICTION_POLICIES:
            for pool, num_blocks in pools.items():
                config = CacheConfig(
                    num_blocks=num_blocks, block_size=arena.prompts[0].block_size, eviction_policy=policy
                )
                times, hits[policy, pool] = replay(arena.prompts, config)
                rounds.setdefault((policy, pool), []).append(times)
    rows = []
    for (policy, pool), all_rounds in rounds.items():
        times = least(all_rounds)
        found = [row for row, is_hit in zip(times, hits[policy, pool], strict=True) if is_hit]
        row = {"policy": policy, "pool": pool, "num_blocks": pools[pool], "all": summary(times)}
        rows.append({**row, "hit": summary(found) if found else None})
    return {"num_requests": len(arena.prompts), "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the traces lie")
    parser.add_argument("--set", action="append", help="sets; repeatable")
    parser.add_argument("--out", type=Path, required=True, help="a JSON file to write")
    options = parser.parse_args()
    results: dict[str, Any] = {
        "hardware": describe_hardware(),
        "python": platform.python_version(),
        "load_before": os.getloadavg(),
        "rounds": NUM_ROUNDS,
        "sets": {name: measure(name, options.folder) for name in options.set or SETS},
    }
    results["load_after"] = os.getloadavg()
    options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

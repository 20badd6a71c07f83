"""The cache core beside the tests' naive cache for as long as one likes, under every eviction policy.

    python -m benchmarks.cache.soak --steps 50000 --out benchmarks/results/cache/soak.json

The same world as in ``tests/kvcache/test_policy_machine.py``, driven by seeded random numbers instead of hypothesis:
after each operation the books of the core, the picture that its events give, ledgers and block tables are compared with
a cache made of sets and lists. The first difference ends it with the seed that shows it.
"""

import argparse
import json
import platform
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.kvcache.policy_world import PolicyWorld, random_config, random_operation

from anaphora.kvcache.eviction import EVICTION_POLICIES

STEPS_PER_WORLD = 500


def soak_one(policy: str, seed: int, num_steps: int) -> Counter[str]:
    """One world from its beginning: what came to pass. Raises ``AssertionError`` at the first difference."""
    rng = random.Random(f"{policy} {seed}")
    world = PolicyWorld(random_config(rng, policy))
    for step in range(num_steps):
        try:
            random_operation(rng, world)()
            world.check()
        except AssertionError as error:
            raise AssertionError(f"policy {policy}, seed {seed}, step {step}: {error}") from error
    stats = world.cache.stats
    return Counter(
        steps=num_steps,
        worlds=1,
        requests=world.num_requests,
        stored_blocks=stats.num_stored_blocks,
        evicted_blocks=stats.num_evicted_blocks,
        resets=world.num_resets,
        events=world.mirror.num_events,
    )


def soak(policy: str, num_steps: int) -> dict[str, Any]:
    """Worlds of :data:`STEPS_PER_WORLD` steps, seeded 0, 1, 2 …"""
    started_s = time.perf_counter()
    done: Counter[str] = Counter()
    for seed in range(-(-num_steps // STEPS_PER_WORLD)):
        done += soak_one(policy, seed, STEPS_PER_WORLD)
    return {**done, "differences": 0, "duration_s": round(time.perf_counter() - started_s, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50_000, help="operations for each policy")
    parser.add_argument("--policy", action="append", choices=sorted(EVICTION_POLICIES), help="repeatable; all if none")
    parser.add_argument("--out", type=Path, help="a JSON file to write")
    options = parser.parse_args()
    policies = sorted(options.policy or EVICTION_POLICIES)
    results = {"python": platform.python_version(), "policies": {name: soak(name, options.steps) for name in policies}}
    text = json.dumps(results, indent=2)
    print(text)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()

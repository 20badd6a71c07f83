"""Two processes that do the same have the same digests, events and ledgers, whatever Python's hash seed is."""

import os
import subprocess
import sys
from pathlib import Path

from tests.kvcache.serving import Serving, random_prompts

from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.events import BlockRemoved, BlockStored, CacheEvent
from anaphora.kvcache.eviction import EVICTION_POLICIES
from anaphora.kvcache.manager import KVCacheManager

REPOSITORY = Path(__file__).parents[2]
PROGRAM = """
from tests.kvcache.test_determinism import history, policies
for policy in policies():
    for line in history(policy):
        print(policy, line)
"""


def policies() -> list[str]:
    return sorted(EVICTION_POLICIES)


def history(policy: str) -> list[str]:
    """Everything that leaves the cache in the course of 150 requests of three tenants, as text."""
    events: list[CacheEvent] = []
    cache = KVCacheManager(CacheConfig(num_blocks=20, block_size=2, eviction_policy=policy), listener=events.append)
    serving = Serving(cache)
    ledgers = serving.serve_all(random_prompts(3, 150))
    return [*map(repr, events), *map(repr, ledgers), repr(cache.stats)]


def run(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout


def test_hash_seeds_change_nothing() -> None:
    here = [f"{policy} {line}" for policy in policies() for line in history(policy)]
    assert run("1").splitlines() == run("2").splitlines() == here


def test_the_history_has_what_could_differ() -> None:
    for policy in policies():
        text = "\n".join(history(policy))
        assert text.count(BlockStored.__name__) > 100
        assert text.count(BlockRemoved.__name__) > 100

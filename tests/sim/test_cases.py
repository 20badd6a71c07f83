"""Public bug reports about prefix caches, at the level of the core (cases 11 and 14): block borders, and tenants."""

import random

import pytest

from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.ledger import Ledger
from anaphora.scheduler.config import SchedulerConfig
from anaphora.sim.predict import Replay, SimulatedRequest
from anaphora.types import Namespace


def replay(*, enable_prefix_caching: bool = True) -> Replay:
    cache = CacheConfig(num_blocks=64, enable_prefix_caching=enable_prefix_caching)
    return Replay(cache, SchedulerConfig(max_model_len=1000, max_num_batched_tokens=24))


def ask(replay: Replay, tokens: list[int], namespace: str = "") -> Ledger:
    (ledger,) = replay.run_in_sequence([SimulatedRequest(Namespace(namespace), tokens, 1)])
    return ledger


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65])
def test_a_prompt_of_any_length_can_be_repeated_and_extended(n: int) -> None:
    tokens = [random.Random(n).randrange(100, 400) for _ in range(n + 5)]
    on = replay()
    cached = [ask(on, prompt).num_cached_tokens for prompt in (tokens[:n], tokens[:n], tokens)]
    assert cached == [0, (n - 1) // 16 * 16, n // 16 * 16]
    off = replay(enable_prefix_caching=False)
    assert [ask(off, prompt).num_cached_tokens for prompt in (tokens[:n], tokens[:n], tokens)] == [0, 0, 0]


def test_equal_salts_share_and_different_ones_do_not() -> None:
    tokens = list(range(100, 164))
    house = replay()
    salts = ["", "", "alpha", "alpha", "beta", "beta", "alpha", ""]
    assert [ask(house, tokens, salt).num_cached_tokens for salt in salts] == [0, 48, 0, 48, 0, 48, 48, 48]

"""Touching what was found is what a request does that finds everything: policies cannot tell one from the other."""

import random

import pytest

from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.eviction import EVICTION_POLICIES, default
from anaphora.kvcache.manager import KVCacheManager
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.types import Namespace, RequestId

N, A = Namespace(""), RequestId("a")
BLOCK = 2
NUM_BLOCKS = 24


def ask(manager: KVCacheManager, tokens: list[int], num_answer_tokens: int, *, touch: bool) -> None:
    """One request with a token behind full blocks; or, if all of these are cached and ``touch``, a touch."""
    match = manager.match(N, TokenBlocks([*tokens, 9], BLOCK))
    if touch and match.num_cached_tokens == len(tokens):
        manager.touch(match, num_answer_tokens=num_answer_tokens)
    else:
        assert manager.admit(A, match, len(tokens) + 1, step=0)
        manager.remember_prompt(N, match.tokens.to_bytes(), A)
        manager.commit(A, len(tokens) + 1)
        manager.free(A, num_answer_tokens=num_answer_tokens)
    manager.check_integrity()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("policy", sorted(EVICTION_POLICIES))
def test_a_touch_counts_as_a_request(policy: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(default, "MIN_RETURNS", 2)
    monkeypatch.setattr(default, "LEARN_EVERY", 4)
    rng = random.Random(seed)
    managers = [
        KVCacheManager(CacheConfig(num_blocks=NUM_BLOCKS, block_size=BLOCK, eviction_policy=policy)) for _ in range(2)
    ]
    num_touches = 0
    for _ in range(80):
        tokens = [rng.randrange(2)] * BLOCK * rng.randint(1, 2)
        tokens += [token for _ in range(rng.randint(0, 3)) for token in [rng.randrange(3)] * BLOCK]
        num_answer_tokens = rng.choice((1, 100))
        if managers[0].pool.num_blank == 0:
            continue  # the request's unfinished block would take another one's place
        num_touches += managers[1].match(N, TokenBlocks([*tokens, 9], BLOCK)).num_cached_tokens == len(tokens)
        for touch, manager in enumerate(managers):
            ask(manager, tokens, num_answer_tokens, touch=bool(touch))
        assert managers[0].pool.eviction_order() == managers[1].pool.eviction_order()
    assert num_touches > 5

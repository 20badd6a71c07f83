"""No digest decides what is served: with all digests equal, every block handed out holds what the prompt says."""

import pytest
from tests.kvcache.serving import Prompt, Serving, random_prompts

from anaphora.kvcache import block_key
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.events import BlockStored, CacheEvent
from anaphora.kvcache.eviction import EVICTION_POLICIES
from anaphora.kvcache.ledger import Ledger
from anaphora.kvcache.manager import KVCacheManager
from anaphora.kvcache.token_blocks import pack
from anaphora.types import BlockId, BlockKey, RequestId

BLOCK = 2
NUM_PROMPTS = 120


class SameDigest:
    """A hash function with one value: the worst that can befall."""

    def __init__(self, _: bytes = b"") -> None:
        pass

    def digest(self) -> bytes:
        return bytes(32)


class Memory:
    """What stands in each block: the tokens that its keys and values depend on, and whose they are."""

    def __init__(self, cache: KVCacheManager) -> None:
        self._cache = cache
        self._contents: dict[BlockId, Prompt] = {}

    def run(self, name: RequestId, prompt: Prompt, num_cached: int) -> None:
        """As the model does: read the blocks found, write the others, block by block."""
        for position, block_id in enumerate(self._cache.block_ids(name)):
            prefix = Prompt(prompt.namespace, prompt.tokens[: (position + 1) * BLOCK])
            if position < num_cached // BLOCK:
                assert self._contents[block_id] == prefix, "a block of another prefix was served"
            self._contents[block_id] = prefix


def serve_all(policy: str, events: list[CacheEvent]) -> list[Ledger]:
    config = CacheConfig(num_blocks=24, block_size=BLOCK, eviction_policy=policy)
    cache = KVCacheManager(config, listener=events.append)
    serving, memory = Serving(cache), Memory(cache)
    ledgers = []
    for prompt in random_prompts(1, NUM_PROMPTS):
        name, ledger, is_there = serving.begin(prompt)
        assert is_there
        memory.run(name, prompt, ledger.num_cached_tokens)
        cache.free(name)
        ledgers.append(ledger)
    cache.check_integrity()
    return ledgers


@pytest.mark.parametrize("policy", sorted(EVICTION_POLICIES))
def test_equal_digests_change_nothing_that_is_served(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[CacheEvent] = []
    expected = serve_all(policy, events)
    keys = {event.key for event in events if isinstance(event, BlockStored)}
    monkeypatch.setattr(block_key, "sha256", SameDigest)
    same_events: list[CacheEvent] = []
    ledgers = serve_all(policy, same_events)
    same_keys = {event.key for event in same_events if isinstance(event, BlockStored)}
    assert (len(keys) > 50, same_keys) == (True, {bytes(32)})  # the digests were made, and are equal indeed
    assert ledgers == expected
    assert sum(ledger.num_cached_tokens for ledger in ledgers) > 200


def num_wrong_blocks() -> int:
    """What a cache that takes equal keys for equal prefixes would hand out wrongly."""
    stored: dict[BlockKey, Prompt] = {}
    num_wrong = 0
    for prompt in random_prompts(1, NUM_PROMPTS):
        ends = range(BLOCK, len(prompt.tokens) + 1, BLOCK)
        blocks = [pack(prompt.tokens[end - BLOCK : end]).tobytes() for end in ends]
        for end, key in zip(ends, block_key.prefix_keys(prompt.namespace, blocks), strict=True):
            prefix = Prompt(prompt.namespace, prompt.tokens[:end])
            num_wrong += stored.setdefault(key, prefix) != prefix
    return num_wrong


def test_a_cache_that_trusts_digests_would_fail_on_these_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert num_wrong_blocks() == 0
    monkeypatch.setattr(block_key, "sha256", SameDigest)
    assert num_wrong_blocks() > 500

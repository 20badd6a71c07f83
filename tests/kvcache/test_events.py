"""A listener can keep an exact picture of what is cached. Blocks of 2 tokens."""

import pytest

from anaphora.kvcache import block_key
from anaphora.kvcache.block_key import ROOT_KEY, KeyKind, extend_key, namespace_key, prefix_keys
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.events import BlockRemoved, BlockStored, CacheCleared, CacheEvent
from anaphora.kvcache.manager import KVCacheManager
from anaphora.kvcache.token_blocks import TokenBlocks, pack
from anaphora.types import BlockId, BlockKey, Namespace, RequestId

X = Namespace("x")
A = RequestId("a")
KEYS = list(prefix_keys(X, TokenBlocks([1, 2, 3, 4], 2).full))


def make(num_blocks: int = 2, root_key: BlockKey = ROOT_KEY) -> tuple[KVCacheManager, list[CacheEvent]]:
    events: list[CacheEvent] = []
    config = CacheConfig(num_blocks=num_blocks, block_size=2)
    return KVCacheManager(config, listener=events.append, root_key=root_key), events


def store(cache: KVCacheManager, tokens: list[int]) -> None:
    match = cache.match(X, TokenBlocks(tokens, 2))
    assert cache.admit(A, match, len(tokens), step=0)
    cache.commit(A, len(tokens))
    cache.free(A)


def packed(*tokens: int) -> bytes:
    return pack(tokens).tobytes()


def test_blocks_are_told_when_they_are_computed_not_when_they_are_scheduled() -> None:
    cache, events = make()
    assert cache.admit(A, cache.match(X, TokenBlocks([1, 2, 3, 4], 2)), 4, step=0)
    assert events == []
    cache.commit(A, 4)
    assert events == [
        BlockStored(0, KEYS[0], namespace_key(ROOT_KEY, X), BlockId(0), packed(1, 2)),
        BlockStored(1, KEYS[1], KEYS[0], BlockId(1), packed(3, 4)),
    ]


def test_withdrawn_blocks_are_never_told() -> None:
    cache, events = make()
    assert cache.admit(A, cache.match(X, TokenBlocks([1, 2, 3, 4], 2)), 4, step=0)
    cache.free(A)
    assert events == []


def test_eviction_and_storing_again_keep_the_key() -> None:
    cache, events = make()
    store(cache, [1, 2, 3, 4])
    store(cache, [1, 2, 5])
    store(cache, [1, 2, 3, 4])
    assert events[2:] == [
        BlockRemoved(2, KEYS[1], BlockId(1)),
        BlockStored(3, KEYS[1], KEYS[0], BlockId(1), packed(3, 4)),
    ]


def test_a_reset_is_one_event() -> None:
    cache, events = make()
    store(cache, [1, 2, 3, 4])
    assert cache.reset()
    assert events[2:] == [CacheCleared(2)]


def test_keys_continue_the_root_key_that_the_caller_chose() -> None:
    root = extend_key(ROOT_KEY, KeyKind.WEIGHTS, b"2")
    cache, events = make(root_key=root)
    store(cache, [1, 2])
    (event,) = events
    assert isinstance(event, BlockStored)
    assert event.key == next(prefix_keys(X, TokenBlocks([1, 2], 2).full, root))


def test_no_digest_is_made_when_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: bytes) -> None:
        raise AssertionError("a digest was made")

    monkeypatch.setattr(block_key, "sha256", fail)
    cache = KVCacheManager(CacheConfig(num_blocks=2, block_size=2))
    store(cache, [1, 2, 3, 4])
    store(cache, [5, 6, 7, 8])
    assert cache.reset()

"""The audit must notice. Each test damages one thing by hand and expects to hear of it."""

from collections.abc import Callable

import pytest

from anaphora.kvcache.census import CensusNode
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.manager import KVCacheManager
from anaphora.kvcache.prefix_index import PrefixNode
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.types import Namespace, RequestId

NAMESPACE = Namespace("n")
CACHED, HELD, NEW = RequestId("cached"), RequestId("held"), RequestId("new")


def admit(cache: KVCacheManager, name: RequestId, tokens: list[int]) -> None:
    packed = TokenBlocks(tokens, 2)
    assert cache.admit(name, cache.match(NAMESPACE, packed, step=0), len(tokens), step=0)
    cache.remember_prompt(NAMESPACE, packed.to_bytes(), name)


def sound_cache() -> KVCacheManager:
    """Eight blocks: 0 and 1 cached only, 2 and 3 held, 4 pending, 5 unfinished; two evicted prefixes are remembered."""
    cache = KVCacheManager(CacheConfig(num_blocks=6, block_size=2))
    for tokens in ([9] * 4, [8] * 8, [1, 2, 3, 4]):
        admit(cache, CACHED, tokens)
        cache.commit(CACHED, len(tokens))
        cache.free(CACHED)
    admit(cache, HELD, [5, 6, 7, 8])
    cache.commit(HELD, 4)
    admit(cache, NEW, [1, 1, 1])
    cache.check_integrity()
    return cache


def find(cache: KVCacheManager, *tokens: int) -> PrefixNode:
    (node,) = [n for n in cache.prefixes.index if n.tokens == TokenBlocks(tokens, 2).full[0]]
    return node


def one_reference_too_many(cache: KVCacheManager) -> None:
    cache.tables[HELD].blocks[0].ref_count += 1


def a_block_lost(cache: KVCacheManager) -> None:
    cache.pool.policy.pop_victim()


def a_blank_block_in_the_index(cache: KVCacheManager) -> None:
    block = cache.tables[NEW].blocks[0]
    block.ref_count = 0
    cache.pool._blank.append(block.block_id)
    del cache.tables[NEW].blocks[0]


def a_cached_block_without_node(cache: KVCacheManager) -> None:
    find(cache, 3, 4).detach()


def a_parent_before_its_child(cache: KVCacheManager) -> None:
    parent = find(cache, 1, 2)
    parent.released_at = 0
    cache.pool.policy.add(parent)


def a_table_whose_ids_are_stale(cache: KVCacheManager) -> None:
    cache.tables[HELD].blocks.reverse()


def a_table_that_claims_more_than_is_indexed(cache: KVCacheManager) -> None:
    cache.tables[NEW].num_indexed += 1


def a_pending_block_of_another_owner(cache: KVCacheManager) -> None:
    find(cache, 1, 1).owner = HELD


def a_node_under_wrong_tokens(cache: KVCacheManager) -> None:
    find(cache, 5, 6).tokens = find(cache, 1, 2).tokens


def an_evicted_node_nobody_remembers(cache: KVCacheManager) -> None:
    (memory,) = cache.prefixes.memory
    next(iter(memory)).evicted_at = None


def a_node_out_of_reach(cache: KVCacheManager) -> None:
    node = find(cache, 3, 4)
    assert node.parent is not None
    del node.parent.children[node.tokens]


def an_empty_root(cache: KVCacheManager) -> None:
    cache.prefixes.index._roots[Namespace("gone")] = PrefixNode(Namespace("gone"), None, b"")


def a_prefix_counted_twice(cache: KVCacheManager) -> None:
    cache.prefixes.census.enter(find(cache, 1, 2).tokens)


def a_prefix_counted_that_nobody_holds(cache: KVCacheManager) -> None:
    cache.prefixes.census.children[b""] = CensusNode()


def ages_out_of_order(cache: KVCacheManager) -> None:
    (memory,) = cache.prefixes.memory
    next(iter(memory)).evicted_at = 100


DAMAGES = [
    one_reference_too_many,
    a_block_lost,
    a_blank_block_in_the_index,
    a_cached_block_without_node,
    a_parent_before_its_child,
    a_table_whose_ids_are_stale,
    a_table_that_claims_more_than_is_indexed,
    a_pending_block_of_another_owner,
    a_node_under_wrong_tokens,
    an_evicted_node_nobody_remembers,
    a_node_out_of_reach,
    an_empty_root,
    a_prefix_counted_twice,
    a_prefix_counted_that_nobody_holds,
    ages_out_of_order,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_is_noticed(damage: Callable[[KVCacheManager], None]) -> None:
    cache = sound_cache()
    damage(cache)
    with pytest.raises(AssertionError):
        cache.check_integrity()

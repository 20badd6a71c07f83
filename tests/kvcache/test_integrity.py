"""The audit must notice. Each test damages one thing by hand and expects to hear of it."""

from array import array
from collections.abc import Callable

import pytest
from tests.kvcache.places import find

from anaphora.kvcache.census import CensusRun
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.extent import Extent
from anaphora.kvcache.manager import KVCacheManager
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.types import Namespace, RequestId

MAIN, NAMESPACE = Namespace("main"), Namespace("n")
OTHERS, CACHED, HELD, NEW = RequestId("others"), RequestId("cached"), RequestId("held"), RequestId("new")


def admit(cache: KVCacheManager, name: RequestId, tokens: list[int]) -> None:
    packed = TokenBlocks(tokens, 2)
    assert cache.admit(name, cache.match(NAMESPACE, packed, step=0), len(tokens), step=0)
    cache.remember_prompt(NAMESPACE, packed.to_bytes(), name)


def sound_cache() -> KVCacheManager:
    """Six blocks: two cached only, two held, one pending, one unfinished; two evicted prefixes are remembered.

    Another namespace, which came first and so is not in the census, holds a seventh.
    """
    cache = KVCacheManager(CacheConfig(num_blocks=7, block_size=2))
    assert cache.admit(OTHERS, cache.match(MAIN, TokenBlocks([0, 0], 2)), 2, step=0)
    cache.commit(OTHERS, 2)
    for tokens in ([9] * 4, [8] * 8, [1, 2, 3, 4]):
        admit(cache, CACHED, tokens)
        cache.commit(CACHED, len(tokens))
        cache.free(CACHED)
    admit(cache, HELD, [5, 6, 7, 8])
    cache.commit(HELD, 4)
    admit(cache, NEW, [1, 1, 1])
    cache.check_integrity()
    return cache


def one_reference_too_many(cache: KVCacheManager) -> None:
    find(cache, 5, 6).extent.ref_count += 1


def more_pinned_than_may_be(cache: KVCacheManager) -> None:
    cache.pins.add("p", NAMESPACE, TokenBlocks([1, 2, 3, 4], 2), now_s=0)
    cache.pins.max_blocks = 1


def a_block_lost(cache: KVCacheManager) -> None:
    cache.pool.policy.pop_victim()


def a_block_in_two_places(cache: KVCacheManager) -> None:
    cache.pool.put_back(array("I", [cache.tables[NEW].ids[-1]]))


def a_number_of_blocks_that_is_wrong(cache: KVCacheManager) -> None:
    cache.pool._num_cached_only += 1


def cached_blocks_that_left_the_index(cache: KVCacheManager) -> None:
    find(cache, 3, 4).extent.detach()


def a_parent_before_its_child(cache: KVCacheManager) -> None:
    extent = find(cache, 1, 2).extent
    parent = cache.prefixes.first_blocks(extent, 1)
    parent.released_at = 0
    cache.pool.policy.add(parent, 0)


def a_table_whose_ids_are_stale(cache: KVCacheManager) -> None:
    assert cache.tables[HELD].ids
    cache.tables[HELD]._ids.reverse()


def a_table_that_claims_more_than_is_indexed(cache: KVCacheManager) -> None:
    cache.tables[NEW].num_indexed += 1


def a_pending_block_of_another_owner(cache: KVCacheManager) -> None:
    find(cache, 1, 1).extent.owner = HELD


def an_extent_under_wrong_tokens(cache: KVCacheManager) -> None:
    find(cache, 5, 6).extent.tokens[:] = bytes(16)


def an_evicted_extent_nobody_remembers(cache: KVCacheManager) -> None:
    (memory,) = cache.prefixes.memory
    next(iter(memory)).evicted_at = None


def an_extent_out_of_reach(cache: KVCacheManager) -> None:
    find(cache, 1, 2).extent.remove()


def an_empty_root(cache: KVCacheManager) -> None:
    cache.prefixes.index._roots[Namespace("gone")] = Extent(Namespace("gone"), None, bytearray(), 8)


def a_main_namespace_that_is_gone(cache: KVCacheManager) -> None:
    cache.prefixes.index.main = Namespace("gone")


def a_prefix_counted_twice(cache: KVCacheManager) -> None:
    assert cache.prefixes.census
    cache.prefixes.census.enter(find(cache, 1, 2).extent.tokens)


def a_prefix_counted_that_nobody_holds(cache: KVCacheManager) -> None:
    assert cache.prefixes.census
    CensusRun(cache.prefixes.census, bytearray(8), 8)


def an_extent_that_is_counted_elsewhere(cache: KVCacheManager) -> None:
    find(cache, 1, 2).extent.census = find(cache, 5, 6).extent.census


def ages_out_of_order(cache: KVCacheManager) -> None:
    (memory,) = cache.prefixes.memory
    next(iter(memory)).evicted_at = 100


DAMAGES = [
    one_reference_too_many,
    more_pinned_than_may_be,
    a_block_lost,
    a_block_in_two_places,
    a_number_of_blocks_that_is_wrong,
    cached_blocks_that_left_the_index,
    a_parent_before_its_child,
    a_table_whose_ids_are_stale,
    a_table_that_claims_more_than_is_indexed,
    a_pending_block_of_another_owner,
    an_extent_under_wrong_tokens,
    an_evicted_extent_nobody_remembers,
    an_extent_out_of_reach,
    an_empty_root,
    a_main_namespace_that_is_gone,
    a_prefix_counted_twice,
    a_prefix_counted_that_nobody_holds,
    an_extent_that_is_counted_elsewhere,
    ages_out_of_order,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_is_noticed(damage: Callable[[KVCacheManager], None]) -> None:
    cache = sound_cache()
    damage(cache)
    with pytest.raises(AssertionError):
        cache.check_integrity()

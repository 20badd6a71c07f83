from array import array

import pytest

from anaphora.kvcache.block_pool import BlockPool
from anaphora.kvcache.eviction.lru import LRUEviction
from anaphora.kvcache.extent import Extent
from anaphora.types import Namespace


class Pool:
    """A pool and an index of its own. Blocks are one byte wide."""

    def __init__(self, num_blocks: int) -> None:
        self.root = Extent(Namespace(""), None, bytearray(), 1)
        self.evicted: list[int] = []
        self.pool = BlockPool(num_blocks, LRUEviction(num_blocks), self.on_evict)

    def on_evict(self, extent: Extent, num_blocks: int) -> Extent | None:
        self.evicted += reversed(extent.block_ids[-num_blocks:])
        kept = extent.split(extent.num_blocks - num_blocks) if num_blocks < extent.num_blocks else None
        extent.detach()
        extent.remove()
        return kept

    def cache(self, *block_ids: int, parent: Extent | None = None) -> Extent:
        """Held once."""
        extent = Extent(Namespace(""), parent or self.root, bytearray(block_ids), 1)
        extent.attach(array("I", block_ids))
        extent.ref_count = 1
        return extent


def test_the_lowest_blank_blocks_are_taken_first_and_in_ascending_order() -> None:
    pool = Pool(6).pool
    assert list(pool.take(2)) == [0, 1]
    assert list(pool.take(3)) == [2, 3, 4]
    pool.put_back(array("I", [4, 1, 3]))
    assert pool.blank_ids() == (1, 3, 4, 5)
    assert list(pool.take(3)) == [1, 3, 4]


def test_blank_blocks_go_before_cached_ones_and_those_in_the_order_of_release_tail_first() -> None:
    made = Pool(6)
    pool = made.pool
    pool.take(5)
    first, second = made.cache(0, 1, 2), made.cache(3, 4)
    pool.release(second)
    pool.release(first)
    assert (pool.num_blank, pool.num_cached_only, pool.num_available) == (1, 5, 6)
    assert pool.eviction_order() == (4, 3, 2, 1, 0)
    assert list(pool.take(4)) == [2, 3, 4, 5]
    assert made.evicted == [4, 3, 2]
    assert pool.eviction_order() == (1, 0)
    assert (second.is_attached, first.is_attached) == (False, False), "what is left of it is another extent"


def test_a_beginning_becomes_a_leaf_when_its_last_continuation_goes() -> None:
    made = Pool(4)
    pool = made.pool
    pool.take(4)
    parent = made.cache(0)
    children = [made.cache(1, parent=parent), made.cache(2, parent=parent)]
    for extent in (children[0], parent, children[1]):
        pool.release(extent)
    assert pool.eviction_order() == (1, 2, 0)
    assert list(pool.take(3)) == [0, 1, 2]
    assert made.evicted == [1, 2, 0]


def test_an_extent_that_is_held_again_is_no_victim_and_becomes_the_last_one_when_released() -> None:
    made = Pool(3)
    pool = made.pool
    pool.take(3)
    extents = [made.cache(i) for i in range(3)]
    for extent in extents:
        pool.release(extent)
    pool.acquire(extents[0])
    pool.acquire(extents[0])
    assert (extents[0].ref_count, pool.eviction_order()) == (2, (1, 2))
    pool.release(extents[0])
    assert pool.eviction_order() == (1, 2)
    pool.release(extents[0])
    assert pool.eviction_order() == (1, 2, 0)


def test_a_cleared_pool_is_blank_and_is_not_cleared_while_a_block_is_held() -> None:
    made = Pool(3)
    pool = made.pool
    pool.take(2)
    first, second = made.cache(0), made.cache(1)
    pool.release(first)
    with pytest.raises(AssertionError, match="in use"):
        pool.clear(LRUEviction(3))
    pool.release(second)
    pool.clear(LRUEviction(3))
    assert (pool.blank_ids(), pool.eviction_order(), pool.num_cached_only) == ((0, 1, 2), (), 0)


def test_taking_more_than_there_is_and_releasing_twice_are_broken_invariants() -> None:
    made = Pool(2)
    with pytest.raises(AssertionError):
        made.pool.take(3)
    extent = made.cache(0)
    made.pool.release(extent)
    with pytest.raises(AssertionError):
        made.pool.release(extent)

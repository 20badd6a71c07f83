import pytest

from anaphora.kvcache.block import Block
from anaphora.kvcache.block_pool import BlockPool
from anaphora.kvcache.eviction.lru import LRUEviction
from anaphora.kvcache.prefix_index import PrefixNode
from anaphora.types import BlockId, Namespace


def cache(block: Block) -> None:
    PrefixNode(Namespace(""), None, b"").attach(block)


def make_pool(num_blocks: int) -> tuple[BlockPool, list[int]]:
    evicted: list[int] = []

    def on_evict(block: Block) -> None:
        assert block.node is not None
        block.node.detach()
        evicted.append(block.block_id)

    return BlockPool(num_blocks, LRUEviction(num_blocks), on_evict), evicted


def ids(blocks: list[Block]) -> list[int]:
    return [block.block_id for block in blocks]


def test_the_lowest_blank_blocks_are_taken_first_and_in_ascending_order() -> None:
    pool, _ = make_pool(6)
    assert ids(pool.take(2)) == [0, 1]
    assert ids(pool.take(3)) == [2, 3, 4]
    for i in (4, 1, 3):
        pool.release(pool.blocks[i])
    assert pool.blank_ids() == (1, 3, 4, 5)
    assert ids(pool.take(3)) == [1, 3, 4]
    assert [block.ref_count for block in pool.blocks] == [1, 1, 1, 1, 1, 0]


def test_blank_blocks_go_before_cached_ones_and_those_in_the_order_of_release() -> None:
    pool, evicted = make_pool(5)
    blocks = pool.take(4)
    for block in blocks:
        cache(block)
    for i in (2, 0, 3):
        pool.release(blocks[i])
    assert (pool.num_blank, pool.num_cached_only, pool.num_available) == (1, 3, 4)
    assert pool.eviction_order() == (2, 0, 3)
    assert ids(pool.take(3)) == [0, 2, 4]
    assert evicted == [2, 0]
    assert pool.eviction_order() == (3,)


def test_a_block_that_is_held_again_is_no_victim_and_becomes_the_last_one_when_released() -> None:
    pool, _ = make_pool(3)
    blocks = pool.take(3)
    for block in blocks:
        cache(block)
        pool.release(block)
    pool.acquire(blocks[0])
    pool.acquire(blocks[0])
    assert (blocks[0].ref_count, pool.eviction_order()) == (2, (1, 2))
    pool.release(blocks[0])
    assert pool.eviction_order() == (1, 2)
    pool.release(blocks[0])
    assert pool.eviction_order() == (1, 2, 0)


def test_a_cleared_pool_is_blank_and_is_not_cleared_while_a_block_is_held() -> None:
    pool, _ = make_pool(3)
    blocks = pool.take(2)
    for block in blocks:
        cache(block)
    pool.release(blocks[0])
    with pytest.raises(AssertionError, match="in use"):
        pool.clear(LRUEviction(3))
    pool.release(blocks[1])
    pool.clear(LRUEviction(3))
    assert (pool.blank_ids(), pool.eviction_order(), pool.num_cached_only) == ((0, 1, 2), (), 0)
    assert [block.node for block in blocks] == [None, None]


def test_taking_more_than_there_is_and_releasing_twice_are_broken_invariants() -> None:
    pool, _ = make_pool(2)
    with pytest.raises(AssertionError):
        pool.take(3)
    with pytest.raises(AssertionError):
        pool.release(pool.blocks[0])


def test_a_block_says_what_it_is() -> None:
    block = Block(BlockId(3))
    assert repr(block) == "Block(3, ref_count=0, not in index)"
    cache(block)
    assert repr(block) == "Block(3, ref_count=0, in index)"

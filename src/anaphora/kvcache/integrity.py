"""The audit of the cache core: every block and every node accounted for. Runs after every step in the tests."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anaphora.kvcache.manager import KVCacheManager


def check_integrity(cache: KVCacheManager) -> None:
    """Raise ``AssertionError`` where the books do not balance."""
    _check_blocks(cache)
    _check_eviction_order(cache)


def _check_blocks(cache: KVCacheManager) -> None:
    mentions = Counter(block.block_id for table in cache.tables.values() for block in table.blocks)
    blank, cached_only = cache.pool.blank_ids(), cache.pool.eviction_order()
    referenced = [block.block_id for block in cache.pool.blocks if block.ref_count > 0]
    assert sorted((*blank, *cached_only, *referenced)) == list(range(cache.config.num_blocks))
    for block in cache.pool.blocks:
        assert block.ref_count == mentions[block.block_id], block
        assert block.node is None or block.node.block is block, block
    assert all(cache.pool.blocks[i].node is None for i in blank)


def _check_eviction_order(cache: KVCacheManager) -> None:
    order = {block_id: rank for rank, block_id in enumerate(cache.pool.eviction_order())}
    for block_id, rank in order.items():
        node = cache.pool.blocks[block_id].node
        assert node is not None
        assert node.owner is None
        for child in node.children.values():
            assert child.block is None or order[child.block.block_id] < rank, "a parent would go before its child"

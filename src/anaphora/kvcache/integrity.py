"""The audit of the cache core: every block and every node accounted for. Runs after every step in the tests."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from anaphora.kvcache.token_blocks import TOKEN_BYTES

if TYPE_CHECKING:
    from anaphora.kvcache.block_table import BlockTable
    from anaphora.kvcache.manager import KVCacheManager
    from anaphora.kvcache.prefix_cache import PrefixCache
    from anaphora.kvcache.prefix_index import PrefixNode


def check_integrity(cache: KVCacheManager) -> None:
    """Raise ``AssertionError`` where the books do not balance."""
    _check_blocks(cache)
    _check_eviction_order(cache)
    for table in cache.tables.values():
        _check_table(table)
    nodes = list(cache.prefixes.index)
    for node in nodes:
        _check_node(cache, node)
    held = [block for block in cache.pool.blocks if block.node is not None]
    assert len(held) == sum(node.block is not None for node in nodes), "a block has a node that is not in the index"
    assert cache.prefixes.index.num_namespaces == len({node.namespace for node in nodes}), "an empty root is kept"
    _check_census(cache.prefixes, nodes)
    _check_memory(cache, nodes)


def _check_blocks(cache: KVCacheManager) -> None:
    """Each block is blank, cached only or referenced; reference counts equal the block tables' mentions."""
    mentions = Counter(block.block_id for table in cache.tables.values() for block in table.blocks)
    blank, cached_only = cache.pool.blank_ids(), cache.pool.eviction_order()
    referenced = [block.block_id for block in cache.pool.blocks if block.ref_count > 0]
    assert sorted((*blank, *cached_only, *referenced)) == list(range(cache.config.num_blocks))
    for block in cache.pool.blocks:
        assert block.ref_count == mentions[block.block_id], block
        assert block.node is None or block.node.block is block, block
    assert all(cache.pool.blocks[i].node is None for i in blank), "a blank block is in the index"
    assert all(cache.pool.blocks[i].node for i in cached_only), "a block without content waits for eviction"


def _check_eviction_order(cache: KVCacheManager) -> None:
    """Children go before their parents, and what a request holds keeps its parents."""
    order = {block_id: rank for rank, block_id in enumerate(cache.pool.eviction_order())}
    for block_id, rank in order.items():
        node = cache.pool.blocks[block_id].node
        assert node is not None
        assert node.owner is None, "a pending block waits for eviction"
        for child in node.children.values():
            assert child.block is None or order.get(child.block.block_id, rank) < rank, "a child outlives its parent"


def _check_table(table: BlockTable) -> None:
    """The first blocks are cached, then come the pending ones; the ids are those of the blocks."""
    assert table.ids == tuple(block.block_id for block in table.blocks)
    path = [*_path(table.node), *table.pending]
    assert len(path) == table.num_indexed + len(table.pending)
    parent = path[0].parent if path else None
    for node, block, tokens in zip(path, table.blocks, table.tokens.full, strict=False):
        assert node.block is block, (node.block, block)
        assert node.tokens == tokens
        assert node.parent is parent
        assert node.namespace == table.namespace
        parent = node
    assert all(node.owner == table.request_id for node in table.pending)


def _path(node: PrefixNode | None) -> list[PrefixNode]:
    path: list[PrefixNode] = []
    while node is not None and node.parent is not None:
        path.append(node)
        node = node.parent
    return path[::-1]


def _check_node(cache: KVCacheManager, node: PrefixNode) -> None:
    """The node is where its parent says, and in one of its three states."""
    parent = node.parent
    assert parent is not None
    assert parent.children[node.tokens] is node
    assert len(node.tokens) == cache.config.block_size * TOKEN_BYTES
    assert node.namespace == parent.namespace
    assert (node.census is not None) == (node.block is not None and node.owner is None)
    if node.block is None:
        assert node.evicted_at is not None, "a node without block that nobody remembers"
        assert node.owner is None
        return
    assert node.block.node is node
    assert parent.parent is None or parent.block is not None, "a block whose beginning is gone"
    if node.owner is None:
        assert node.evicted_at is None
        assert parent.owner is None, "a cached block follows a pending one"
    else:
        assert node in cache.tables[node.owner].pending


def _check_census(prefixes: PrefixCache, nodes: list[PrefixNode]) -> None:
    """Each cached node is counted once, under its own tokens."""
    holders = Counter(node.census for node in nodes if node.census is not None)
    for node in nodes:
        if node.census is not None:
            assert node.parent is not None
            parent = node.parent.census or prefixes.census
            assert parent.children[node.tokens] is node.census
            assert node.census.num_holders == holders[node.census]
    assert len(holders) == prefixes.census.num_descendants()


def _check_memory(cache: KVCacheManager, nodes: list[PrefixNode]) -> None:
    """What is remembered is in the index, within its bounds, children before parents."""
    memories = list(cache.prefixes.memory)
    assert len(memories) <= cache.config.max_remembered_namespaces
    remembered = [node for memory in memories for node in memory]
    assert set(remembered) == {node for node in nodes if node.evicted_at is not None}
    for memory in memories:
        assert memory.num_remembered_evictions <= cache.config.max_remembered_evictions
        assert len(memory.prompts) <= cache.config.max_remembered_prompts
        ages = [node.evicted_at or 0 for node in memory]
        assert ages == sorted(set(ages))
        for node in memory:
            assert all((child.evicted_at or 0) < (node.evicted_at or 0) for child in node.children.values())

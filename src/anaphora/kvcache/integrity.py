"""The audit of the cache core: every block and every extent accounted for. Runs after every step in the tests."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anaphora.kvcache.block_table import BlockTable
    from anaphora.kvcache.census import CensusRun
    from anaphora.kvcache.extent import Extent
    from anaphora.kvcache.manager import KVCacheManager
    from anaphora.kvcache.prefix_cache import PrefixCache
    from anaphora.kvcache.run import Run


def check_integrity(cache: KVCacheManager) -> None:
    """Raise ``AssertionError`` where the books do not balance."""
    extents = list(cache.prefixes.index)
    for table in cache.tables.values():
        _check_table(cache, table)
    for extent in extents:
        _check_run(extent)
        _check_extent(cache, extent)
    _check_blocks(cache, extents)
    _check_references(cache, extents)
    _check_eviction_order(cache, extents)
    namespaces = {extent.namespace for extent in extents}
    assert cache.prefixes.index.num_namespaces == len(namespaces), "an empty root is kept"
    assert cache.prefixes.index.main in {None, *namespaces}, "the main namespace is not in the index"
    _check_census(cache.prefixes, extents)
    _check_memory(cache, extents)


def _check_blocks(cache: KVCacheManager, extents: list[Extent]) -> None:
    """Each block is blank, in one extent, or one request's own."""
    places: Counter[int] = Counter(cache.pool.blank_ids())
    for extent in extents:
        places.update(extent.block_ids)
    for table in cache.tables.values():
        places.update(table.ids_between(table.num_indexed + table.num_pending))
    assert sorted(places.elements()) == list(range(cache.config.num_blocks)), places
    assert cache.pool.num_blank == len(cache.pool.blank_ids())


def _check_references(cache: KVCacheManager, extents: list[Extent]) -> None:
    """Reference counts equal the mentions of block tables and pins."""
    mentions = Counter(cache.pins.extents())
    for table in cache.tables.values():
        mentions.update((*table.extents(), *table.pending_extents()))
    for extent in extents:
        assert extent.ref_count == mentions[extent], (extent.ref_count, mentions[extent])
    assert len(mentions) == sum(extent.ref_count > 0 for extent in extents), "what is held is not in the index"
    num_cached_only = sum(extent.num_blocks for extent in extents if extent.is_cached_only)
    assert cache.pool.num_cached_only == num_cached_only
    num_pinned = sum(extent.num_blocks for extent in set(cache.pins.extents()))
    assert cache.pins.num_blocks == num_pinned <= cache.pins.max_blocks, "more is pinned than may be"
    assert len(cache.pins) <= cache.pins.max_pins


def _check_eviction_order(cache: KVCacheManager, extents: list[Extent]) -> None:
    """Last blocks go first, children before their parents, and all that nobody holds goes."""
    order: dict[int, int] = {block_id: rank for rank, block_id in enumerate(cache.pool.eviction_order())}
    assert len(order) == cache.pool.num_cached_only
    for extent in extents:
        if extent.is_cached_only:
            assert extent.owner is None, "a pending block waits for eviction"
            last = order[extent.block_ids[-1]]
            assert all(order[block_id] > last for block_id in extent.block_ids[:-1]), "the last block is not the first"
            for child in extent.children.values():
                assert not child.is_attached or order[child.block_ids[0]] < last, "a child outlives its parent"


def _check_table(cache: KVCacheManager, table: BlockTable) -> None:
    """The first blocks are cached, then come the pending ones, all with the ids and tokens of their extents."""
    assert table.ids == table.ids_between(0)
    parent: Extent | None = None
    position = 0
    for extent in (*table.extents(), *table.pending_extents()):
        stop = position + extent.num_blocks
        assert extent.block_ids == table.ids_between(position, stop), (extent.block_ids, table.ids)
        assert extent.tokens == table.tokens.run(position, stop)
        assert extent is cache.prefixes.index.child(table.namespace, parent, table.tokens, position)
        position, parent = stop, extent
    assert all(extent.owner == table.request_id for extent in table.pending_extents())


def _check_run(run: Run) -> None:
    """It is where its parent says, and holds whole blocks."""
    assert run.parent is not None
    assert run.head == run.tokens[: run.width]
    assert run.parent.children[run.head] is run
    assert run.width == run.parent.width
    assert run.tokens
    assert len(run.tokens) == run.num_blocks * run.width


def _check_extent(cache: KVCacheManager, extent: Extent) -> None:
    """It is in one of its three states."""
    parent = extent.parent
    assert parent is not None
    assert extent.namespace == parent.namespace
    assert extent.num_attached_children == sum(child.is_attached for child in extent.children.values())
    is_counted = extent.namespace != cache.prefixes.index.main
    assert (extent.census is not None) == (extent.is_attached and extent.owner is None and is_counted)
    if not extent.is_attached:
        assert extent.evicted_at is not None, "an extent without blocks that nobody remembers"
        assert extent.owner is None
        return
    assert parent.parent is None or parent.is_attached, "blocks whose beginning is gone"
    assert len(extent.block_ids) == extent.num_blocks
    if extent.owner is None:
        assert extent.evicted_at is None
        assert parent.owner is None, "a cached block follows a pending one"
        assert len(extent.stored_at) == extent.num_blocks
    else:
        assert extent in cache.tables[extent.owner].pending_extents()


def _check_census(prefixes: PrefixCache, extents: list[Extent]) -> None:
    """Each cached prefix is counted once for each namespace but the main one, under its own tokens."""
    holders: Counter[CensusRun] = Counter()
    ends: Counter[CensusRun] = Counter()
    for extent in extents:
        if extent.census is not None:
            assert extent.parent is not None
            runs = _census_runs(extent.census, extent.parent.census or prefixes.census)
            assert b"".join([run.tokens for run in runs]) == extent.tokens
            holders.update(runs)
            ends[extent.census] += 1
    stack = list(prefixes.census.children.values()) if prefixes.census else []
    while stack:
        run = stack.pop()
        _check_run(run)
        assert run.num_holders == holders.pop(run, 0) > 0, run.num_holders
        assert run.num_ends == ends[run], run.num_ends
        stack.extend(run.children.values())
    assert not holders, "a prefix is counted out of reach"


def _census_runs(last: CensusRun, before: CensusRun | None) -> list[CensusRun]:
    runs: list[CensusRun] = []
    node: CensusRun | None = last
    while node is not before:
        assert node is not None, "an extent is not counted below its parent"
        runs.append(node)
        node = node.parent
    return runs[::-1]


def _check_memory(cache: KVCacheManager, extents: list[Extent]) -> None:
    """What is remembered is in the index, within its bounds, children before parents."""
    memories = list(cache.prefixes.memory)
    assert len(memories) <= cache.config.max_remembered_namespaces
    remembered = [extent for memory in memories for extent in memory]
    assert set(remembered) == {extent for extent in extents if extent.evicted_at is not None}
    for memory in memories:
        num_blocks = sum(extent.num_blocks for extent in memory)
        assert memory.num_remembered_evictions == num_blocks <= cache.config.max_remembered_evictions
        assert len(memory.prompts) <= cache.config.max_remembered_prompts
        newest = 0
        for extent in memory:
            assert extent.evicted_at is not None
            assert newest <= extent.evicted_at - extent.num_blocks, "two blocks were evicted at once"
            newest = extent.evicted_at
            assert all((child.evicted_at or 0) < newest for child in extent.children.values())
        assert newest <= memory.num_evicted_blocks

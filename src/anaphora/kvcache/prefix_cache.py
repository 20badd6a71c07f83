"""The life of a prefix: pending, cached, evicted, forgotten. Every change of the index is made here."""

from array import array

from anaphora.kvcache.block_key import ROOT_KEY
from anaphora.kvcache.block_table import BlockTable
from anaphora.kvcache.census import CensusRun
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.events import CacheListener, EventPublisher
from anaphora.kvcache.extent import Extent
from anaphora.kvcache.memory import Memory, NamespaceMemory
from anaphora.kvcache.prefix_index import PrefixIndex
from anaphora.kvcache.stats import CacheStats
from anaphora.types import BlockKey


class PrefixCache:
    """The prefix index with all that hangs on it.

    ::

                        publish             store              evict                 the memory is full
        (no extent) ------------> pending ------------> cached ------------> evicted ------------> (no extent)
                    <------------         <------------------------------------
                       withdraw               publish (withdraw leads back)
    """

    def __init__(
        self,
        config: CacheConfig,
        stats: CacheStats,
        listener: CacheListener | None = None,
        root_key: BlockKey = ROOT_KEY,
    ) -> None:
        self.index = PrefixIndex()
        self.memory = Memory(config, self._forget)
        self._census: CensusRun | None = None
        self._stats = stats
        self._events = None if listener is None else EventPublisher(listener, root_key)

    @property
    def census(self) -> CensusRun | None:
        """What is held, over all namespaces but the index's ``main``; ``None`` until another one has cached anything.

        The main one's own tree tells what it holds: where there is no other, nobody pays for a census.
        """
        return self._census

    def publish(
        self, table: BlockTable, parent: Extent | None, start: int, stop: int, step: int | None
    ) -> Extent | None:
        """Make the table's blocks from ``start`` on pending, below ``parent``, where they end.

        As many as have one history: up to ``stop``, or as far as an evicted extent goes. ``None``, and no change, if
        the first of them has another block already.
        """
        extent = self.index.child(table.namespace, parent, table.tokens, start)
        if extent is None:
            extent = self.index.insert(table.namespace, parent, table.tokens.run(start, stop), table.tokens.width)
        elif extent.is_attached:
            return None
        else:
            extent = self.first_blocks(extent, extent.num_spelt(table.tokens, start, stop))
        extent.attach(table.ids_between(start, start + extent.num_blocks))
        extent.ref_count = 1
        extent.owner = table.request_id
        extent.step = step
        return extent

    def first_blocks(self, extent: Extent, num_blocks: int) -> Extent:
        """An extent of the first ``num_blocks`` blocks: cut off, if there are more."""
        if num_blocks == extent.num_blocks:
            return extent
        num_after = extent.num_blocks - num_blocks
        upper = extent.split(num_blocks)
        if extent.census is not None:
            upper.census = extent.census.end_at(num_after)
        if extent.evicted_at is not None:
            self.memory.of(extent).has_split(upper)
        return upper

    def store(self, extent: Extent) -> None:
        """The extent's blocks are computed: they are cached from now on."""
        parent, num_blocks, num_before = extent.parent, extent.num_blocks, self._stats.num_stored_blocks
        assert parent is not None
        extent.owner = extent.step = None
        if extent.evicted_at is not None:
            self.memory.of(extent).drop_eviction(extent)
        if extent.namespace != self.index.main:
            if self._census is None:
                self._census = CensusRun(None, bytearray(), extent.width)
            extent.census = (parent.census or self._census).enter(extent.tokens)
        extent.num_stores += 1
        extent.num_uses = 0
        extent.released_at = 0
        extent.stored_at = array("Q", list(range(num_before + 1, num_before + num_blocks + 1)))
        self._stats.num_stored_blocks += num_blocks
        if self._events:
            self._events.stored(extent)
        if extent.continues():
            extent.join()
            if parent.census is not None:
                parent.census.no_end()

    def withdraw(self, extent: Extent) -> None:
        """A pending extent's blocks will not be computed."""
        assert extent.owner is not None
        assert extent.ref_count == 1, extent
        extent.detach()
        if extent.evicted_at is None:
            self.index.remove(extent)

    def evict(self, extent: Extent, num_blocks: int) -> Extent | None:
        """The last blocks of a cached extent are wanted for something else. Returns what stays cached, if anything."""
        assert extent.owner is None
        if self._events:
            self._events.removed(extent, num_blocks)
        self._stats.num_evicted_blocks += num_blocks
        census = extent.census.leave(num_blocks) if extent.census is not None else None
        memory = self.memory.get(extent.namespace)
        kept = None
        if num_blocks < extent.num_blocks:
            before = None if memory is None else _evicted_just_before(extent, memory)
            kept = extent.split(extent.num_blocks - num_blocks) if before is None else extent
            kept.census = census.end_at(0) if census is not None else None
            if memory is not None and before is not None:
                extent.lose_to(before, num_blocks)
                memory.extend_eviction(before, num_blocks)
                return kept
        extent.census = None
        extent.detach()
        if memory is None:
            self.index.remove(extent)
        else:
            memory.add_eviction(extent)
            self._join_evicted(extent)
        return kept

    def clear(self) -> None:
        """Forget every extent. The caller has taken care of the blocks."""
        self.index.clear()
        self._census = None
        self.memory.clear()
        self._stats.num_resets += 1
        if self._events:
            self._events.cleared()

    def _join_evicted(self, extent: Extent) -> None:
        """If what follows an evicted extent was evicted just before, they are one."""
        if extent.evicted_at is not None and len(extent.children) == 1:
            (child,) = extent.children.values()
            if child.evicted_at is not None and child.continues():
                self.memory.of(extent).joins(extent)
                child.join()

    def _forget(self, extent: Extent) -> None:
        if not extent.is_attached:
            self.index.remove(extent)


def _evicted_just_before(extent: Extent, memory: NamespaceMemory) -> Extent | None:
    """What follows the extent, if that was evicted last of all and has the same history."""
    if len(extent.children) != 1:
        return None
    (child,) = extent.children.values()
    is_next = child.evicted_at == memory.num_evicted_blocks and child.is_like(extent)
    return child if is_next else None

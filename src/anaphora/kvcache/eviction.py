"""Which cached block goes when a new one is needed. A policy is one small class."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Protocol

from anaphora.types import BlockId


class EvictionPolicy(Protocol):
    """Keeps the cached blocks that no request holds, and picks the next one to evict.

    A prefix is useless without its beginning: a victim must not have cached children. Blocks are added tail first and
    whoever holds a block holds its parents, so a child is always added before its parent.
    """

    def add(self, block_id: BlockId) -> None:
        """No request holds the block any more."""

    def remove(self, block_id: BlockId) -> None:
        """A request holds the block again, or it is cached no longer."""

    def pop_victim(self) -> BlockId:
        """Remove and return the block to evict. There must be one."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[BlockId]:
        """The blocks in the order in which they would be evicted."""


class LRUEviction:
    """The block given up longest ago goes first. Every operation is O(1), and needs no clock."""

    def __init__(self) -> None:
        # An OrderedDict, not a dict: taking the first key of a dict costs time for every key that was there before it.
        self._order: OrderedDict[BlockId, None] = OrderedDict()

    def add(self, block_id: BlockId) -> None:
        assert block_id not in self._order, block_id
        self._order[block_id] = None

    def remove(self, block_id: BlockId) -> None:
        del self._order[block_id]

    def pop_victim(self) -> BlockId:
        return self._order.popitem(last=False)[0]

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[BlockId]:
        return iter(self._order)


EVICTION_POLICIES: Mapping[str, Callable[[], EvictionPolicy]] = MappingProxyType({"lru": LRUEviction})
"""The policies by the name that ``CacheConfig.eviction_policy`` takes."""

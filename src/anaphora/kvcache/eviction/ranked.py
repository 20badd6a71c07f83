"""The classics that give each leaf one fixed rank when it becomes one."""

from abc import ABC, abstractmethod
from typing import Self

from anaphora.kvcache.eviction.policy import NoMemory, Victim
from anaphora.kvcache.extent import Extent
from anaphora.kvcache.extent_heap import ExtentHeap, Rank


class RankedEviction(NoMemory, ABC):
    """The leaf of the lowest rank goes first.

    ``goes_as_a_whole``: towards its beginning, nothing else's rank comes between those of an extent's blocks.
    """

    goes_as_a_whole = True

    def __init__(self, num_blocks: int) -> None:
        self._num_blocks = num_blocks
        self._leaves = ExtentHeap()

    @abstractmethod
    def rank(self, extent: Extent, position: int) -> Rank:
        """The rank of the block at ``position``. No other block has the same."""

    def add(self, extent: Extent, position: int) -> None:
        self._leaves.add(extent, *self.rank(extent, position))

    def remove(self, extent: Extent) -> None:
        self._leaves.remove(extent)

    def pop_victim(self) -> Victim:
        return Victim(self._leaves.pop(), self.goes_as_a_whole)

    def __len__(self) -> int:
        return len(self._leaves)

    def clone(self) -> Self:
        other = type(self)(self._num_blocks)
        other._leaves = self._leaves.copy()
        return other

"""The classics that give each leaf one fixed rank when it becomes one."""

from abc import ABC, abstractmethod
from typing import Self

from anaphora.kvcache.eviction.leaf_heap import LeafHeap, Rank
from anaphora.kvcache.eviction.policy import NoMemory
from anaphora.kvcache.prefix_index import PrefixNode


class RankedEviction(NoMemory, ABC):
    """The leaf of the lowest rank goes first."""

    def __init__(self, num_blocks: int) -> None:
        self._num_blocks = num_blocks
        self._leaves = LeafHeap()

    @abstractmethod
    def rank(self, node: PrefixNode) -> Rank:
        """The rank of a leaf. No other leaf has the same."""

    def add(self, node: PrefixNode) -> None:
        self._leaves.add(node, *self.rank(node))

    def remove(self, node: PrefixNode) -> None:
        self._leaves.remove(node)

    def pop_victim(self) -> PrefixNode:
        return self._leaves.pop()

    def __len__(self) -> int:
        return len(self._leaves)

    def clone(self) -> Self:
        other = type(self)(self._num_blocks)
        other._leaves = self._leaves.copy()
        return other

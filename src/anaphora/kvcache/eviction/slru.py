"""Segmented least recently used (Karedla, Love and Wherry, 1994), on the leaves of a tree."""

from typing import Self

from anaphora.kvcache.eviction.leaf_heap import LeafHeap
from anaphora.kvcache.eviction.policy import NoMemory
from anaphora.kvcache.prefix_index import PrefixNode

PROTECTED_SHARE = 0.5
"""Of the leaves, at most so many are protected."""


class SLRUEviction(NoMemory):
    """Leaves that were used again are protected: they go after all those that never were.

    If more than ``PROTECTED_SHARE`` of the leaves are protected, the one given up longest ago is on probation again,
    where its place is still that of the moment at which it was given up.
    """

    def __init__(self, num_blocks: int) -> None:
        self._num_blocks = num_blocks
        self._probation = LeafHeap()
        self._protected = LeafHeap()

    def add(self, node: PrefixNode) -> None:
        segment = self._protected if node.num_uses else self._probation
        segment.add(node, node.released_at)
        if len(self._protected) > PROTECTED_SHARE * len(self):
            demoted = self._protected.pop()
            self._probation.add(demoted, demoted.released_at)

    def remove(self, node: PrefixNode) -> None:
        segment = self._protected if node in self._protected else self._probation
        segment.remove(node)

    def pop_victim(self) -> PrefixNode:
        return (self._probation or self._protected).pop()

    def __len__(self) -> int:
        return len(self._probation) + len(self._protected)

    def clone(self) -> Self:
        other = type(self)(self._num_blocks)
        other._probation, other._protected = self._probation.copy(), self._protected.copy()
        return other

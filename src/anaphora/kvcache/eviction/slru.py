"""Segmented least recently used (Karedla, Love and Wherry, 1994), on the leaves of a tree."""

from typing import Self

from anaphora.kvcache.eviction.policy import NoMemory, Victim
from anaphora.kvcache.extent import Extent
from anaphora.kvcache.extent_heap import ExtentHeap

PROTECTED_SHARE = 0.5
"""Of the leaves, at most so many are protected."""


class SLRUEviction(NoMemory):
    """Leaves that were used again are protected: they go after all those that never were.

    If more than ``PROTECTED_SHARE`` of the leaves are protected, the one given up longest ago is on probation again,
    where its place is still that of the moment at which it was given up.
    """

    def __init__(self, num_blocks: int) -> None:
        self._num_blocks = num_blocks
        self._probation = ExtentHeap()
        self._protected = ExtentHeap()

    def add(self, extent: Extent, position: int) -> None:
        segment = self._protected if extent.num_uses else self._probation
        segment.add(extent, extent.released_at - position)
        if len(self._protected) > PROTECTED_SHARE * len(self):
            first = self._protected.first()
            assert first is not None
            rank, _, demoted = first
            self._protected.remove(demoted)
            self._probation.add(demoted, rank)

    def remove(self, extent: Extent) -> None:
        segment = self._protected if extent in self._protected else self._probation
        segment.remove(extent)

    def pop_victim(self) -> Victim:
        # Its next block comes back to probation, unless it was used; and demotes nobody, unless too many are protected.
        extent = (self._probation or self._protected).pop()
        return Victim(extent, not extent.num_uses and len(self._protected) <= PROTECTED_SHARE * (len(self) + 1))

    def __len__(self) -> int:
        return len(self._probation) + len(self._protected)

    def clone(self) -> Self:
        other = type(self)(self._num_blocks)
        other._probation, other._protected = self._probation.copy(), self._protected.copy()
        return other

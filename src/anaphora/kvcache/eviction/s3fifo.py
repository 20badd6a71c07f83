"""S3-FIFO (Yang, Zhang, Qiu, Yue and Rashmi, 2023), on the leaves of a tree."""

from typing import Self

from anaphora.kvcache.eviction.policy import NoMemory, Victim
from anaphora.kvcache.extent import Extent
from anaphora.kvcache.extent_heap import ExtentHeap

SMALL_SHARE = 0.1
"""Of the leaves, so many wait in the small queue."""
MAX_CREDIT = 3


class S3FIFOEviction(NoMemory):
    """New leaves queue in ``small``. Used ones go from its end to ``main``, the others go for good.

    Those that come back after an eviction (the memory of evicted prefixes is the ghost queue) begin in ``main``. There,
    a leaf that comes to the end of the queue lines up again, once for each use that it has to its credit.
    """

    def __init__(self, num_blocks: int) -> None:
        self._num_blocks = num_blocks
        self._small = ExtentHeap()
        self._main = ExtentHeap()
        self._places: dict[Extent, tuple[int, int]] = {}
        """The last blocks that belong to ``main``, leaf or not: the place in the queue, and how many uses are spent."""
        self._num_places = 0

    def add(self, extent: Extent, position: int) -> None:
        if extent in self._places:
            self._main.add(extent, self._places[extent][0])
        elif extent.num_stores > 1:
            self._line_up(extent, 0)
        else:
            self._small.add(extent, extent.stored_at[position])

    def remove(self, extent: Extent) -> None:
        queue = self._small if extent in self._small else self._main
        queue.remove(extent)

    def pop_victim(self) -> Victim:
        while True:
            from_small = bool(self._small) and (not self._main or len(self._small) >= SMALL_SHARE * len(self))
            if from_small:
                extent, num_spent = self._small.pop(), 0
            else:
                extent = self._main.pop()
                num_spent = self._places.pop(extent)[1] + 1
            if min(extent.num_uses, MAX_CREDIT) < num_spent or not extent.num_uses:
                # What comes after a victim from `small` was stored just before it, and is next in that queue.
                return Victim(extent, from_small)
            self._line_up(extent, num_spent)

    def _line_up(self, extent: Extent, num_spent: int) -> None:
        self._num_places += 1
        self._places[extent] = (self._num_places, num_spent)
        self._main.add(extent, self._num_places)

    def __len__(self) -> int:
        return len(self._small) + len(self._main)

    def clone(self) -> Self:
        other = type(self)(self._num_blocks)
        other._small, other._main = self._small.copy(), self._main.copy()
        other._places, other._num_places = dict(self._places), self._num_places
        return other

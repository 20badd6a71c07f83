"""Extents by rank, the lowest first."""

from heapq import heapify, heappop, heappush

from anaphora.kvcache.extent import Extent

Rank = tuple[int, ...]
"""No two extents of a heap have the same."""


class ExtentHeap:
    """Adding and popping cost O(log n), removing O(1): what was removed stays in the heap until it comes up."""

    def __init__(self) -> None:
        self._heap: list[tuple[Rank, int, Extent]] = []  # with a number: what was removed may have had the same rank
        self._ranks: dict[Extent, Rank] = {}
        self._num_added = 0

    def add(self, extent: Extent, *rank: int) -> None:
        """Put an extent in its place."""
        assert extent not in self._ranks, extent
        self._ranks[extent] = rank
        self._num_added += 1
        heappush(self._heap, (rank, self._num_added, extent))
        if len(self._heap) > 2 * len(self._ranks) + 64:
            self._heap = [(rank, number, extent) for number, (extent, rank) in enumerate(self._ranks.items())]
            heapify(self._heap)

    def remove(self, extent: Extent) -> None:
        """Take an extent out."""
        del self._ranks[extent]

    def first(self) -> tuple[Rank, Extent]:
        """The extent of the lowest rank, and that. There must be one."""
        heap, ranks = self._heap, self._ranks
        rank, _, extent = heap[0]
        while ranks.get(extent) != rank:
            heappop(heap)
            rank, _, extent = heap[0]
        return rank, extent

    def pop(self) -> Extent:
        """Take out the extent of the lowest rank. There must be one."""
        _, extent = self.first()
        heappop(self._heap)
        del self._ranks[extent]
        return extent

    def ranked(self) -> list[tuple[Rank, Extent]]:
        """All extents, the lowest rank first."""
        return sorted([(rank, extent) for extent, rank in self._ranks.items()], key=lambda entry: entry[0])

    def __len__(self) -> int:
        return len(self._ranks)

    def __contains__(self, extent: object) -> bool:
        return extent in self._ranks

    def copy(self) -> "ExtentHeap":
        """Another heap with the same extents."""
        other = ExtentHeap()
        other._heap, other._ranks, other._num_added = list(self._heap), dict(self._ranks), self._num_added
        return other

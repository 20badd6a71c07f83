"""Extents by rank, the lowest first."""

from heapq import heapify, heappop, heappush
from typing import Any

from anaphora.kvcache.extent import Extent

Rank = tuple[int, ...]
"""No two extents of a heap have the same."""
Entry = tuple[Any, ...]
"""A rank, a number and an extent. No two have the same number: what was removed may have had the same rank."""


class ExtentHeap:
    """Adding and popping cost O(log n), removing O(1): what was removed stays in the heap until it comes up."""

    def __init__(self) -> None:
        self._heap: list[Entry] = []
        self._entries: dict[Extent, Entry] = {}
        self._num_added = 0

    def add(self, extent: Extent, *rank: int) -> None:
        """Put an extent in its place."""
        heap, entries = self._heap, self._entries
        assert extent not in entries, extent
        self._num_added += 1
        entry = entries[extent] = (*rank, self._num_added, extent)
        heappush(heap, entry)
        if len(heap) > 2 * len(entries) + 64:
            self._heap = list(entries.values())
            heapify(self._heap)

    def remove(self, extent: Extent) -> None:
        """Take an extent out."""
        del self._entries[extent]

    def first(self) -> Entry | None:
        """Rank, number and extent of the lowest rank, if there is any."""
        heap, entries = self._heap, self._entries
        while heap:
            entry = heap[0]
            if entries.get(entry[-1]) is entry:
                return entry
            heappop(heap)
        return None

    def pop(self) -> Extent:
        """Take out the extent of the lowest rank. There must be one."""
        heap, entries = self._heap, self._entries
        entry = heappop(heap)
        while entries.get(entry[-1]) is not entry:
            entry = heappop(heap)
        extent: Extent = entry[-1]
        del entries[extent]
        return extent

    def ranked(self) -> list[tuple[Rank, Extent]]:
        """All extents, the lowest rank first."""
        return [(entry[:-2], entry[-1]) for entry in sorted(self._entries.values())]

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, extent: object) -> bool:
        return extent in self._entries

    def copy(self) -> "ExtentHeap":
        """Another heap with the same extents."""
        other = ExtentHeap()
        other._heap, other._entries, other._num_added = list(self._heap), dict(self._entries), self._num_added
        return other

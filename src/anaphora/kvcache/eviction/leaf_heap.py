"""Leaves by rank, the lowest first."""

from heapq import heapify, heappop, heappush

from anaphora.kvcache.prefix_index import PrefixNode

Rank = tuple[int, ...]
"""No two leaves of a heap have the same."""


class LeafHeap:
    """Adding and popping cost O(log n), removing O(1): what was removed stays in the heap until it comes up."""

    def __init__(self) -> None:
        self._heap: list[tuple[Rank, PrefixNode]] = []
        self._ranks: dict[PrefixNode, Rank] = {}

    def add(self, node: PrefixNode, *rank: int) -> None:
        """Put a leaf in its place."""
        assert node not in self._ranks, node
        self._ranks[node] = rank
        heappush(self._heap, (rank, node))
        if len(self._heap) > 2 * len(self._ranks) + 64:
            self._heap = [(rank, node) for node, rank in self._ranks.items()]
            heapify(self._heap)

    def remove(self, node: PrefixNode) -> None:
        """Take a leaf out."""
        del self._ranks[node]

    def first(self) -> PrefixNode:
        """The leaf of the lowest rank. There must be one."""
        heap, ranks = self._heap, self._ranks
        while ranks.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][1]

    def pop(self) -> PrefixNode:
        """Take out the leaf of the lowest rank. There must be one."""
        node = self.first()
        heappop(self._heap)
        del self._ranks[node]
        return node

    def __len__(self) -> int:
        return len(self._ranks)

    def __contains__(self, node: object) -> bool:
        return node in self._ranks

    def copy(self) -> "LeafHeap":
        """Another heap with the same leaves."""
        other = LeafHeap()
        other._heap, other._ranks = list(self._heap), dict(self._ranks)
        return other

"""S3-FIFO (Yang, Zhang, Qiu, Yue and Rashmi, 2023), on the leaves of a tree."""

from typing import Self

from anaphora.kvcache.eviction.leaf_heap import LeafHeap
from anaphora.kvcache.eviction.policy import NoMemory
from anaphora.kvcache.prefix_index import PrefixNode

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
        self._small = LeafHeap()
        self._main = LeafHeap()
        self._places: dict[PrefixNode, tuple[int, int]] = {}
        """What belongs to ``main``, leaf or not: its place in the queue, and how many uses it has spent."""
        self._num_places = 0

    def add(self, node: PrefixNode) -> None:
        if node in self._places:
            self._main.add(node, self._places[node][0])
        elif node.num_stores > 1:
            self._line_up(node, 0)
        else:
            self._small.add(node, node.stored_at)

    def remove(self, node: PrefixNode) -> None:
        queue = self._small if node in self._small else self._main
        queue.remove(node)

    def pop_victim(self) -> PrefixNode:
        while True:
            if self._small and (not self._main or len(self._small) >= SMALL_SHARE * len(self)):
                node, num_spent = self._small.pop(), 0
            else:
                node = self._main.pop()
                num_spent = self._places.pop(node)[1] + 1
            if min(node.num_uses, MAX_CREDIT) < num_spent or not node.num_uses:
                return node
            self._line_up(node, num_spent)

    def _line_up(self, node: PrefixNode, num_spent: int) -> None:
        self._num_places += 1
        self._places[node] = (self._num_places, num_spent)
        self._main.add(node, self._num_places)

    def __len__(self) -> int:
        return len(self._small) + len(self._main)

    def clone(self) -> Self:
        other = type(self)(self._num_blocks)
        other._small, other._main = self._small.copy(), self._main.copy()
        other._places, other._num_places = dict(self._places), self._num_places
        return other

"""The blocks without content, the lowest ids first."""

from array import array
from collections.abc import Iterator
from heapq import heappop, heappush


class BlankBlocks:
    """Ids in runs: to hand out thousands that lie together costs no more than a few.

    Low ids first keeps the blocks of a request together, which attention over contiguous memory likes.
    """

    def __init__(self, num_blocks: int) -> None:
        self._all = array("I", range(num_blocks))
        self._runs = [(0, num_blocks)]  # a heap of disjoint [start, stop), which are not joined where they touch
        self._num_blocks = num_blocks

    def take(self, num_blocks: int) -> "array[int]":
        """The lowest ids, ascending. There must be so many."""
        assert num_blocks <= self._num_blocks, (num_blocks, self._num_blocks)
        ids = array("I")
        while len(ids) < num_blocks:
            start, stop = heappop(self._runs)
            end = min(stop, start + num_blocks - len(ids))
            ids += self._all[start:end]
            if end < stop:
                heappush(self._runs, (end, stop))
        self._num_blocks -= num_blocks
        return ids

    def add(self, ids: "array[int]") -> None:
        """These blocks have no content any more."""
        self._num_blocks += len(ids)
        position = 0
        while position < len(ids):
            start = ids[position]
            length = len(ids) - position
            if ids[position:] != self._all[start : start + length]:
                length = 1
                while position + length < len(ids) and ids[position + length] == start + length:
                    length += 1
            heappush(self._runs, (start, start + length))
            position += length

    def __len__(self) -> int:
        return self._num_blocks

    def __iter__(self) -> Iterator[int]:
        """Ascending."""
        for start, stop in sorted(self._runs):
            yield from range(start, stop)

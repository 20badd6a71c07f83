"""The best that any eviction could do: the block that will be used last goes first. Only a simulator can."""

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

from anaphora.types import BlockId


class BeladyEviction:
    """An :class:`~anaphora.kvcache.eviction.EvictionPolicy` that is told the future.

    A beginning is used no later than what continues it, and of blocks used at the same time those given up first go
    first: so a victim never has cached children. It is the optimum among caches that keep what a request has computed.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, BlockId]] = []
        self._entries: dict[BlockId, tuple[int, int, BlockId]] = {}
        self._upcoming: Sequence[int] = ()
        self._num_expected = 0
        self._num_added = 0

    def expect(self, next_uses: Sequence[int]) -> None:
        """When the blocks that a request is about to give up will be used next, the beginning of its prompt first."""
        self._upcoming = next_uses
        self._num_expected = len(next_uses)

    def add(self, block_id: BlockId) -> None:
        self._num_expected -= 1
        self._num_added += 1
        entry = (-self._upcoming[self._num_expected], self._num_added, block_id)
        self._entries[block_id] = entry
        heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._entries) + 1024:
            self._heap = list(self._entries.values())
            heapify(self._heap)

    def remove(self, block_id: BlockId) -> None:
        del self._entries[block_id]

    def pop_victim(self) -> BlockId:
        while True:
            entry = heappop(self._heap)
            if self._entries.get(entry[2]) is entry:
                del self._entries[entry[2]]
                return entry[2]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[BlockId]:
        return (block_id for _, _, block_id in sorted(self._entries.values()))

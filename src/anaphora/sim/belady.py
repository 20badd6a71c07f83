"""The best that any eviction could do: the block that will be used last goes first. Only a simulator can."""

from array import array
from collections.abc import Sequence
from typing import Self

from anaphora.kvcache.eviction.ranked import RankedEviction
from anaphora.kvcache.extent import Extent
from anaphora.kvcache.extent_heap import Rank


class BeladyEviction(RankedEviction):
    """An :class:`~anaphora.kvcache.eviction.EvictionPolicy` that is told the future.

    A beginning is used no later than what continues it: so the leaf that is used last is the block that is. It is the
    optimum among caches that keep what a request has computed.
    """

    goes_as_a_whole = False

    def __init__(self, num_blocks: int) -> None:
        super().__init__(num_blocks)
        self._next_uses = array("q", bytes(8 * num_blocks))

    def expect(self, block_ids: Sequence[int], next_uses: Sequence[int]) -> None:
        """When the blocks that a request is about to give up will be used next, the beginning of its prompt first."""
        for block_id, next_use in zip(block_ids, next_uses, strict=True):
            self._next_uses[block_id] = next_use

    def rank(self, extent: Extent, position: int) -> Rank:
        return (-self._next_uses[extent.block_ids[position]], extent.released_at - position)

    def clone(self) -> Self:
        other = super().clone()
        other._next_uses = self._next_uses[:]
        return other

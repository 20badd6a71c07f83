"""Least frequently used."""

from anaphora.kvcache.eviction.ranked import RankedEviction
from anaphora.kvcache.extent import Extent
from anaphora.kvcache.extent_heap import Rank


class LFUEviction(RankedEviction):
    """The block that the fewest requests have found cached goes first; of equals, the one given up longest ago."""

    def rank(self, extent: Extent, position: int) -> Rank:
        return (extent.num_uses, extent.released_at - position)

"""First in, first out."""

from anaphora.kvcache.eviction.ranked import RankedEviction
from anaphora.kvcache.extent import Extent
from anaphora.kvcache.extent_heap import Rank


class FIFOEviction(RankedEviction):
    """The block stored longest ago goes first, used or not."""

    def rank(self, extent: Extent, position: int) -> Rank:
        return (extent.stored_at[position],)

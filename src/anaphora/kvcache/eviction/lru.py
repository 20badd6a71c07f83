"""Least recently used."""

from anaphora.kvcache.eviction.ranked import RankedEviction
from anaphora.kvcache.extent import Extent
from anaphora.kvcache.extent_heap import Rank


class LRUEviction(RankedEviction):
    """The block given up longest ago goes first."""

    def rank(self, extent: Extent, position: int) -> Rank:
        return (extent.released_at - position,)

"""Least frequently used."""

from anaphora.kvcache.eviction.leaf_heap import Rank
from anaphora.kvcache.eviction.ranked import RankedEviction
from anaphora.kvcache.prefix_index import PrefixNode


class LFUEviction(RankedEviction):
    """The block that the fewest requests have found cached goes first; of equals, the one given up longest ago."""

    def rank(self, node: PrefixNode) -> Rank:
        return (node.num_uses, node.released_at)

"""First in, first out."""

from anaphora.kvcache.eviction.leaf_heap import Rank
from anaphora.kvcache.eviction.ranked import RankedEviction
from anaphora.kvcache.prefix_index import PrefixNode


class FIFOEviction(RankedEviction):
    """The block stored longest ago goes first, used or not."""

    def rank(self, node: PrefixNode) -> Rank:
        return (node.stored_at,)

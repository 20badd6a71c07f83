"""Least recently used."""

from anaphora.kvcache.eviction.leaf_heap import Rank
from anaphora.kvcache.eviction.ranked import RankedEviction
from anaphora.kvcache.prefix_index import PrefixNode


class LRUEviction(RankedEviction):
    """The block given up longest ago goes first."""

    def rank(self, node: PrefixNode) -> Rank:
        return (node.released_at,)

"""The best that any eviction could do: the block that will be used last goes first. Only a simulator can."""

from collections.abc import Iterable, Sequence
from typing import Self

from anaphora.kvcache.eviction.leaf_heap import Rank
from anaphora.kvcache.eviction.ranked import RankedEviction
from anaphora.kvcache.prefix_index import PrefixNode


class BeladyEviction(RankedEviction):
    """An :class:`~anaphora.kvcache.eviction.EvictionPolicy` that is told the future.

    A beginning is used no later than what continues it: so the leaf that is used last is the block that is. It is the
    optimum among caches that keep what a request has computed.
    """

    def __init__(self, num_blocks: int) -> None:
        super().__init__(num_blocks)
        self._next_uses: dict[PrefixNode, int] = {}

    def expect(self, nodes: Iterable[PrefixNode], next_uses: Sequence[int]) -> None:
        """When the blocks that a request is about to give up will be used next, the beginning of its prompt first."""
        self._next_uses.update(zip(nodes, next_uses, strict=True))

    def rank(self, node: PrefixNode) -> Rank:
        return (-self._next_uses[node], node.released_at)

    def pop_victim(self) -> PrefixNode:
        node = super().pop_victim()
        del self._next_uses[node]
        return node

    def clone(self) -> Self:
        other = super().clone()
        other._next_uses = dict(self._next_uses)
        return other

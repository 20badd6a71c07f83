"""Our own default: what is least likely to be asked for again soon goes first, as learnt from who came back so far."""

from collections.abc import Iterable
from copy import copy
from typing import Self

from anaphora.kvcache.eviction.leaf_heap import LeafHeap
from anaphora.kvcache.eviction.life_table import NUM_STEPS, LifeTable
from anaphora.kvcache.eviction.return_rates import Curve, return_rates
from anaphora.kvcache.eviction.visit import NUM_KINDS, Visit
from anaphora.kvcache.prefix_index import PrefixNode

MIN_RETURNS = 200
"""Blocks that must have been asked for again before anything is believed. Until then: least recently used."""
LEARN_EVERY = 128
"""Visits after which the rates are worked out anew."""
MARGIN = 0.8
"""A block goes before the one used longest ago only if its rate of return is less than so much of that one's."""


class DefaultEviction:
    """Within a kind of visit, the block given up longest ago goes first; among kinds, the lowest rate of return.

    Once a visit has begun to go it goes on going, tail first, until a request comes or leaves.
    """

    def __init__(self, num_blocks: int) -> None:
        self._num_blocks = num_blocks
        self._table = LifeTable(num_blocks)
        self._rates: list[Curve] | None = None
        self._leaves = [LeafHeap() for _ in range(NUM_KINDS)]
        self._now = 0
        self._num_visits = 0
        self._num_returns = 0
        self._going: Visit | None = None

    def add(self, node: PrefixNode) -> None:
        assert node.visit is not None
        self._leaves[node.visit.kind].add(node, node.released_at)

    def remove(self, node: PrefixNode) -> None:
        assert node.visit is not None
        self._leaves[node.visit.kind].remove(node)

    def pop_victim(self) -> PrefixNode:
        going = self._going
        leaves = self._leaves[going.kind] if going else None
        if not leaves or leaves.first().visit is not going:
            leaves = self._choose()
            self._going = leaves.first().visit
        return leaves.pop()

    def __len__(self) -> int:
        return sum(map(len, self._leaves))

    def clone(self) -> Self:
        other = copy(self)
        other._leaves = [leaves.copy() for leaves in self._leaves]
        return other

    def come_back(self, nodes: Iterable[PrefixNode], now: int) -> None:
        """The visits of the nodes have been returned to. A node belongs to none until it is left again."""
        self._going = None
        for node in nodes:
            if node.visit is not None:
                self._table.count_return(node.visit, now)
                self._num_returns += 1
                node.visit = None

    def leave(self, visit: Visit, now: int) -> None:
        visit.left_at = now
        self._going = None
        self._now = now
        self._table.count_visit(visit, now)
        self._num_visits += 1
        if self._num_visits % LEARN_EVERY == 0 and self._num_returns >= MIN_RETURNS:
            self._rates = return_rates(self._table, self._num_blocks)

    def _choose(self) -> LeafHeap:
        """The kind whose oldest leaf goes next."""
        heads = [(leaves.first(), leaves) for leaves in self._leaves if leaves]
        oldest = min(heads, key=lambda head: head[0].released_at)
        if self._rates is None:
            return oldest[1]
        rated = [(self.rate(node), node.released_at, leaves) for node, leaves in heads]
        least = min(rated, key=lambda head: head[:2])
        return least[2] if least[0] < MARGIN * self.rate(oldest[0]) else oldest[1]

    def rate(self, node: PrefixNode) -> float:
        """The rate of return at the node's age, between those of the two steps next to it. Something must be learnt."""
        assert self._rates is not None
        assert node.visit is not None
        age = self._now - node.visit.left_at
        step = self._table.step(age)
        curve, edges = self._rates[node.visit.kind], self._table.edges
        if step == NUM_STEPS - 1:
            return curve[step]
        way = (age - edges[step]) / (edges[step + 1] - edges[step])
        return curve[step] + (curve[step + 1] - curve[step]) * way

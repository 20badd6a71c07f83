"""Our own default: what is least likely to be asked for again soon goes first, as learnt from who came back so far."""

from collections.abc import Iterable
from copy import copy
from math import inf
from sys import maxsize
from typing import Self

from anaphora.kvcache.eviction.life_table import NUM_STEPS, LifeTable
from anaphora.kvcache.eviction.policy import Victim
from anaphora.kvcache.eviction.return_rates import ReturnRates
from anaphora.kvcache.eviction.visit import NUM_KINDS, Visit
from anaphora.kvcache.extent import Extent
from anaphora.kvcache.extent_heap import ExtentHeap

MIN_RETURNS = 200
"""Blocks that must have been asked for again before anything is believed. Until then: least recently used."""
LEARN_EVERY = 128
"""Visits after which the rates are worked out anew."""
MARGIN = 0.65
"""A block goes before the one used longest ago only if its rate of return is less than so much of that one's."""
GRAIN = 1 / 64
"""Rates are looked up again when ages have grown by so much of the pool: the life table's first step."""


class DefaultEviction:
    """Within a kind of visit, the block given up longest ago goes first; among kinds, the lowest rate of return.

    Once a visit has begun to go it goes on going, tail first, until a request comes or leaves.
    """

    def __init__(self, num_blocks: int) -> None:
        self._num_blocks = num_blocks
        self._table = LifeTable(num_blocks)
        self._rates: ReturnRates | None = None
        self._leaves = [ExtentHeap() for _ in range(NUM_KINDS)]
        # Of each kind of visit the oldest leaf's rate of return and rank; as high as can be where there is none.
        self._head_rates = [inf] * NUM_KINDS
        self._head_ranks = [maxsize] * NUM_KINDS
        self._changed: set[int] = set()
        """Kinds whose oldest leaf, or its rate, may be another one than is written there."""
        self._looked_up_at = 0
        self._now = 0
        self._num_visits = 0
        self._num_returns = 0
        self._going: Visit | None = None

    def add(self, extent: Extent, position: int) -> None:
        assert extent.visit is not None
        kind = extent.visit.kind
        self._leaves[kind].add(extent, extent.released_at - position)
        self._changed.add(kind)

    def remove(self, extent: Extent) -> None:
        assert extent.visit is not None
        kind = extent.visit.kind
        self._leaves[kind].remove(extent)
        self._changed.add(kind)

    def pop_victim(self) -> Victim:
        going = self._going
        leaves = self._leaves[going.kind] if going else None
        if not leaves or leaves.first().visit is not going:
            leaves = self._leaves[self._choose()]
            going = self._going = leaves.first().visit
        victim = leaves.pop()
        assert going is not None
        self._changed.add(going.kind)
        return Victim(victim, as_a_whole=True)

    def __len__(self) -> int:
        return sum(map(len, self._leaves))

    def clone(self) -> Self:
        other = copy(self)
        other._leaves = [leaves.copy() for leaves in self._leaves]
        other._head_rates, other._head_ranks = list(self._head_rates), list(self._head_ranks)
        other._changed = set(self._changed)
        return other

    def come_back(self, extents: Iterable[Extent], now: int) -> None:
        """The visits of the extents have been returned to. An extent belongs to none until it is left again."""
        self._going = None
        num_blocks: dict[Visit, int] = {}
        for extent in extents:
            if extent.visit is not None:
                num_blocks[extent.visit] = num_blocks.get(extent.visit, 0) + extent.num_blocks
                extent.visit = None
        for visit, num_returns in num_blocks.items():
            self._table.count_return(visit, num_returns, now)
            self._num_returns += num_returns

    def leave(self, visit: Visit, now: int) -> None:
        visit.left_at = now
        self._going = None
        self._now = now
        self._table.count_visit(visit, now)
        self._num_visits += 1
        if self._num_visits % LEARN_EVERY == 0 and self._num_returns >= MIN_RETURNS:
            self._rates = ReturnRates(self._table, self._num_blocks)
            self._changed.update([kind for kind, leaves in enumerate(self._leaves) if leaves])

    def _choose(self) -> int:
        """The kind whose oldest leaf goes next."""
        if self._now - self._looked_up_at > GRAIN * self._num_blocks:
            self._looked_up_at = self._now
            self._changed.update([kind for kind, leaves in enumerate(self._leaves) if leaves])
        for kind in self._changed:
            self._look_up(kind)
        self._changed.clear()
        rates, ranks = self._head_rates, self._head_ranks
        oldest, least_rate = ranks.index(min(ranks)), min(rates)
        if least_rate >= MARGIN * rates[oldest]:
            return oldest
        if rates.count(least_rate) == 1:
            return rates.index(least_rate)
        return min([(ranks[kind], kind) for kind, rate in enumerate(rates) if rate == least_rate])[1]

    def _look_up(self, kind: int) -> None:
        """Rank and rate of the kind's oldest leaf."""
        leaves = self._leaves[kind]
        if leaves:
            extent = leaves.first()
            (self._head_ranks[kind],) = leaves.rank(extent)
            self._head_rates[kind] = self.rate(extent) if self._rates else 0.0
        else:
            self._head_ranks[kind], self._head_rates[kind] = maxsize, inf

    def rate(self, extent: Extent) -> float:
        """The rate of return at the extent's age, between those of the two steps next to it; once any is learnt."""
        assert self._rates is not None
        assert extent.visit is not None
        age = self._now - extent.visit.left_at
        step = self._table.step(age)
        curve, edges = self._rates[extent.visit.kind], self._table.edges
        if step == NUM_STEPS - 1:
            return curve[step]
        way = (age - edges[step]) / (edges[step + 1] - edges[step])
        return curve[step] + (curve[step + 1] - curve[step]) * way

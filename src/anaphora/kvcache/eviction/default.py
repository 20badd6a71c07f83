"""Our own default: what is least likely to be asked for again soon goes first, as learnt from who came back so far."""

from bisect import bisect_right
from collections.abc import Iterable
from copy import copy
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
        # Of each kind of visit that has leaves, the oldest one: its rank, its rate of return, and its visit by rank.
        self._head_ranks: dict[int, int] = {}
        self._head_rates: dict[int, float] = {}
        self._head_visits: dict[int, Visit] = {}
        self._changed: set[int] = set()
        """Kinds whose oldest leaf may be another one than is written there."""
        self._is_outdated = False
        """Whether all rates may be others than are written there."""
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
        first = self._leaves[going.kind].first() if going else None
        if first is None or first[-1].visit is not going:
            going = self._going = self._choose()
        self._changed.add(going.kind)
        return Victim(self._leaves[going.kind].pop(), True)

    def __len__(self) -> int:
        return sum(map(len, self._leaves))

    def clone(self) -> Self:
        other = copy(self)
        other._leaves = [leaves.copy() for leaves in self._leaves]
        other._head_ranks, other._head_rates = dict(self._head_ranks), dict(self._head_rates)
        other._head_visits = dict(self._head_visits)
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
            self._is_outdated = True

    def _choose(self) -> Visit:
        """The visit whose leaf goes next."""
        if self._now - self._looked_up_at > GRAIN * self._num_blocks:
            self._looked_up_at = self._now
            self._is_outdated = True
        ranks, rates, visits = self._head_ranks, self._head_rates, self._head_visits
        if self._is_outdated:
            self._is_outdated = False
            for kind, rank in ranks.items():
                if kind not in self._changed:
                    rates[kind] = self.rate(visits[rank])
        for kind in self._changed:
            self._look_up(kind)
        self._changed.clear()
        oldest, least_rate = visits[min(visits)], min(rates.values())
        if least_rate >= MARGIN * rates[oldest.kind]:
            return oldest
        return visits[min([ranks[kind] for kind, rate in rates.items() if rate == least_rate])]

    def _look_up(self, kind: int) -> None:
        """Rank, visit and rate of the kind's oldest leaf."""
        ranks, first = self._head_ranks, self._leaves[kind].first()
        if kind in ranks:
            del self._head_visits[ranks[kind]]
        if first is not None:
            rank, _, extent = first
            ranks[kind], self._head_visits[rank] = rank, extent.visit
            self._head_rates[kind] = self.rate(extent.visit)
        elif kind in ranks:
            del ranks[kind], self._head_rates[kind]

    def rate(self, visit: Visit) -> float:
        """The rate of return at the visit's age, between those of the two steps next to it; 0 until any is learnt."""
        if self._rates is None:
            return 0.0
        age, curve, edges = self._now - visit.left_at, self._rates[visit.kind], self._table.edges
        step = bisect_right(edges, age) - 1
        if step == NUM_STEPS - 1:
            return curve[step]
        way = (age - edges[step]) / (edges[step + 1] - edges[step])
        return curve[step] + (curve[step + 1] - curve[step]) * way

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
        # Of each kind of visit that has leaves: the rank, the rate of return and the visit of its oldest one.
        self._by_age: dict[int, tuple[int, float, Visit]] = {}
        self._by_rate: dict[int, tuple[float, int, Visit]] = {}
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
        other._by_age, other._by_rate = dict(self._by_age), dict(self._by_rate)
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
        if self._is_outdated:
            self._is_outdated = False
            for kind, (rank, _, visit) in self._by_age.items():
                if kind not in self._changed:
                    self._look_up(kind, rank, visit)
        for kind in self._changed:
            first = self._leaves[kind].first()
            if first is not None:
                self._look_up(kind, first[0], first[-1].visit)
            elif kind in self._by_age:
                del self._by_age[kind], self._by_rate[kind]
        self._changed.clear()
        _, rate_of_oldest, oldest = min(self._by_age.values())
        least_rate, _, visit = min(self._by_rate.values())
        return visit if least_rate < MARGIN * rate_of_oldest else oldest

    def _look_up(self, kind: int, rank: int, visit: Visit) -> None:
        """The rate of a kind whose oldest leaf has that rank and belongs to that visit."""
        rate = 0.0 if self._rates is None else self.rate(visit)
        self._by_age[kind] = rank, rate, visit
        self._by_rate[kind] = rate, rank, visit

    def rate(self, visit: Visit) -> float:
        """The rate of return at the visit's age, between those of the two steps next to it; once any is learnt."""
        assert self._rates is not None
        age, curve, edges = self._now - visit.left_at, self._rates[visit.kind], self._table.edges
        step = bisect_right(edges, age) - 1
        if step == NUM_STEPS - 1:
            return curve[step]
        way = (age - edges[step]) / (edges[step + 1] - edges[step])
        return curve[step] + (curve[step + 1] - curve[step]) * way

"""From counted returns to what it is worth to keep a block: expected returns per block of room and time."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from operator import mul

from anaphora.kvcache.eviction.life_table import LifeTable
from anaphora.kvcache.eviction.visit import NUM_KINDS, is_brief

TRUST = 3.0
"""A kind's own chance at an age counts against its estimate as soon as it has more than about so many returns."""
KIND_TRUST = 4.0
"""The same for a kind's chances at all ages, against those of all kinds with like answers."""
ANSWER_TRUST = 1.0
"""The same for the chances after brief or long answers, against those after any."""
HORIZON = 0.5
"""How far ahead returns are looked for, in stored blocks per block of the pool."""
MAX_CHANCE = 0.95

Curve = list[float]


class ReturnRates(dict[int, Curve]):
    """For each kind of visit and step of age: the best rate of returns, per block kept and block stored meanwhile.

    The best over all times at which one may stop waiting, as an index of Gittins' sort; and never more than at an
    earlier step. A kind's chances, those of a :class:`LifeTable` when this was made, are drawn towards those of its
    like where little has been seen of it. Curves are drawn when they are asked for: many never are.
    """

    def __init__(self, table: LifeTable, num_blocks: int) -> None:
        # What was counted until now is kept, and worked out when the first victim is chosen: if none ever is, never.
        self._entered = [row.copy() for row in table.entered]
        self._returned = [row.copy() for row in table.returned]
        edges, horizon = table.edges, HORIZON * num_blocks
        self._lengths = [end - begin for begin, end in pairwise(edges)]
        self._stops = [max(bisect_right(edges, edge + horizon), step + 1) for step, edge in enumerate(edges)]
        """For each step, the first one past the horizon."""
        self._by_answer: dict[bool, Curve] = {}
        self._factors: dict[int, float] = {}

    def __missing__(self, kind: int) -> Curve:
        """A rate for each step of age."""
        curve = self[kind] = _falling_rates(self._chances(kind), self._lengths, self._stops)
        return curve

    def _chances(self, kind: int) -> Curve:
        """The chance of a return within each step, if there was none before it."""
        if not self._by_answer:
            self._by_answer = self._chances_by_answer()
        shape = kind % (NUM_KINDS // 2)
        factor = self._factors.get(shape)
        if factor is None:
            factor = self._factors[shape] = self._factor(shape)
        expected = [
            x if (x := factor * chance) < MAX_CHANCE else MAX_CHANCE for chance in self._by_answer[is_brief(kind)]
        ]
        return _blend(self._returned[kind], self._entered[kind], expected, TRUST)

    def _chances_by_answer(self) -> dict[bool, Curve]:
        """The chances of all kinds with brief answers together, and of all others."""
        entered, returned = self._entered, self._returned
        overall = [(r + 1e-3) / (e + 1) for r, e in zip(_sum(returned), _sum(entered), strict=True)]
        half = NUM_KINDS // 2
        return {
            brief: _blend(_sum(returned[part]), _sum(entered[part]), overall, ANSWER_TRUST)
            for brief, part in ((False, slice(half)), (True, slice(half, None)))
        }

    def _factor(self, shape: int) -> float:
        """How much more often than expected visits of two kinds, alike but for the answer, are returned to."""
        num_returned = num_expected = KIND_TRUST
        for kind in (shape, shape + NUM_KINDS // 2):
            num_returned += sum(self._returned[kind])
            num_expected += sum(map(mul, self._entered[kind], self._by_answer[is_brief(kind)]))
        return num_returned / num_expected


def _sum(rows: list[Curve]) -> Curve:
    return [sum(column) for column in zip(*rows, strict=True)]


def _blend(returned: Curve, entered: Curve, expected: Curve, trust: float) -> Curve:
    """Counted chances, as if ``trust`` returns had been seen at the expected ones before."""
    triples = zip(returned, entered, expected, strict=True)
    return [
        chance if (chance := (r + trust) / (e + trust / (x if x > 1e-9 else 1e-9))) < MAX_CHANCE else MAX_CHANCE
        for r, e, x in triples
    ]


def _falling_rates(chances: Curve, lengths: Curve, stops: Sequence[int]) -> Curve:
    """For each step, the most returns per time over all numbers of steps, from it on, that one may wait; and never more
    than for an earlier step.
    """
    # Who is returned to within a step has waited for half of it, in the mean.
    waits = [(1 - c / 2) * length for c, length in zip(chances, lengths, strict=False)]
    at_once = [chance / wait for chance, wait in zip(chances, waits, strict=False)]
    curve: Curve = []
    least = inf
    is_passed_through = False
    """Whether the step before pays less than the least rate, and so is waited through for what comes after it: that
    alone is worth no less."""
    for start, rate in enumerate(at_once):
        if rate < least and not is_passed_through:  # else waiting longer makes it no less
            stop = stops[start]
            if max(at_once[start:stop]) > rate:  # a rate over more steps is a mean of theirs
                least = min(least, _best_rate(chances[start:stop], waits[start:stop]))
            else:
                least = rate
        is_passed_through = rate < least
        curve.append(least)
    return [*curve, 0.0]  # the last step has no end


def _best_rate(chances: Curve, waits: Curve) -> float:
    """The most returns per time over all numbers of steps from the first on."""
    best = num_returns = time = 0.0
    still_there = 1.0
    for chance, wait in zip(chances, waits, strict=False):
        num_returns += still_there * chance
        time += still_there * wait
        still_there *= 1 - chance
        rate = num_returns / time
        if rate > best:
            best = rate
    return best

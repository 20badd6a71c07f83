"""From counted returns to what it is worth to keep a block: expected returns per block of room and time."""

from itertools import accumulate
from operator import mul

from anaphora.kvcache.eviction.life_table import NUM_STEPS, LifeTable
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


class ReturnRates:
    """For each kind of visit and step of age: the best rate of returns, per block kept and block stored meanwhile.

    The best over all times at which one may stop waiting, as an index of Gittins' sort; and never more than at an
    earlier step. A kind's chances, those of a :class:`LifeTable` when this was made, are drawn towards those of its
    like where little has been seen of it. Curves are drawn when they are asked for: many never are.
    """

    def __init__(self, table: LifeTable, num_blocks: int) -> None:
        self._chances = _chances(table)
        self._edges = table.edges
        self._horizon = HORIZON * num_blocks
        self._curves: dict[int, Curve] = {}

    def __getitem__(self, kind: int) -> Curve:
        """A rate for each step of age."""
        curve = self._curves.get(kind)
        if curve is None:
            chances = self._chances[kind]
            rates = [_best_rate(chances, self._edges, step, self._horizon) for step in range(NUM_STEPS)]
            curve = self._curves[kind] = list(accumulate(rates, min))
        return curve


def _chances(table: LifeTable) -> list[Curve]:
    """The chance of a return within each step, if there was none before it, by kind."""
    all_kinds = range(NUM_KINDS)
    entered, returned = _sum(table.entered, all_kinds), _sum(table.returned, all_kinds)
    overall = [(r + 1e-3) / (e + 1) for r, e in zip(returned, entered, strict=True)]
    by_answer: dict[bool, Curve] = {}
    for brief in (False, True):
        kinds = [kind for kind in all_kinds if is_brief(kind) is brief]
        by_answer[brief] = _blend(_sum(table.returned, kinds), _sum(table.entered, kinds), overall, ANSWER_TRUST)
    chances: list[Curve] = []
    for kind in all_kinds:
        factor = _factor(table, kind % (NUM_KINDS // 2), by_answer)
        expected = [min(factor * chance, MAX_CHANCE) for chance in by_answer[is_brief(kind)]]
        chances.append(_blend(table.returned[kind], table.entered[kind], expected, TRUST))
    return chances


def _factor(table: LifeTable, shape: int, by_answer: dict[bool, Curve]) -> float:
    """How much more often than expected visits of two kinds, alike but for the answer, are returned to."""
    num_returned = num_expected = KIND_TRUST
    for kind in (shape, shape + NUM_KINDS // 2):
        num_returned += sum(table.returned[kind])
        num_expected += sum(map(mul, table.entered[kind], by_answer[is_brief(kind)]))
    return num_returned / num_expected


def _sum(table: list[Curve], kinds: "range | list[int]") -> Curve:
    return [sum(column) for column in zip(*[table[kind] for kind in kinds], strict=True)]


def _blend(returned: Curve, entered: Curve, expected: Curve, trust: float) -> Curve:
    """Counted chances, as if ``trust`` returns had been seen at the expected ones before."""
    triples = zip(returned, entered, expected, strict=True)
    return [min((r + trust) / (e + trust / max(x, 1e-9)), MAX_CHANCE) for r, e, x in triples]


def _best_rate(chances: Curve, edges: Curve, start: int, horizon: float) -> float:
    """The most returns per time over all numbers of steps, from ``start`` on, that one may wait."""
    best = num_returns = time = 0.0
    still_there = 1.0
    for step in range(start, NUM_STEPS - 1):
        if step > start and edges[step] - edges[start] > horizon:
            break
        num_returns += still_there * chances[step]
        time += still_there * (1 - chances[step] / 2) * (edges[step + 1] - edges[step])
        still_there *= 1 - chances[step]
        best = max(best, num_returns / time)
    return best

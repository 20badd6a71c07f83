"""One figure of two runs: the change, and where it lies if the runs were made again.

Both runs are resampled, each within its cells, as often as other intervals are (:mod:`anaphora.lab.statistics`). Where
the same things were asked in both and often enough, they are resampled together: what differs between questions is
then no noise.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from anaphora.lab.comparison.quantity import Cell, Quantity
from anaphora.lab.statistics import LEVEL, NUM_RESAMPLES, Interval, Samples

MIN_SAMPLES = 5
"""Fewer in a cell, and a percentile interval covers less than it says: 92 % of 95 with four, 69 % with two."""
_MIN_PAIRS = 7
"""Fewer, and resampling pairs covers less than it says; without pairs the interval is too wide at worst. It must be no
more than a switch has by default: where its questions differ by 10 %, a change of 5 % is found 85 times in 100 by pairs
and hardly ever without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """``change`` = B − A in the figure's unit; ``relative_percent`` of A, unless A is not above 0 or a percentage.

    The intervals are ``None`` where samples are too few for one.
    """

    place: str
    name: str
    unit: str
    a: float
    b: float
    num_a: int
    num_b: int
    change: float
    change_interval: Interval | None
    relative_percent: float | None
    relative_interval: Interval | None

    @property
    def full_name(self) -> str:
        """What a condition may call it."""
        return f"{self.place}.{self.name}"

    @property
    def is_chance(self) -> bool | None:
        """Whether no change at all would explain what was seen; ``None`` if samples are too few to tell."""
        interval = self.change_interval
        return None if interval is None else interval.low <= 0 <= interval.high


def difference(a: Quantity, b: Quantity, *, seed: int) -> Difference:
    """Compare one figure of two runs; the same seed gives the same intervals."""
    values = a.value, b.value
    has_ratio = a.unit != "%" and values[0] > 0
    spread = _resampled(a, b, np.random.default_rng(seed)) if _enough(a) and _enough(b) else None
    return Difference(
        place=a.place,
        name=a.name,
        unit=a.unit,
        a=values[0],
        b=values[1],
        num_a=a.num_samples,
        num_b=b.num_samples,
        change=values[1] - values[0],
        change_interval=None if spread is None else _percentiles(spread[1] - spread[0]),
        relative_percent=(values[1] / values[0] - 1) * 100 if has_ratio else None,
        relative_interval=None if spread is None or not has_ratio else _ratio(*spread),
    )


def as_json(value: Difference) -> dict[str, Any]:
    """One entry of ``differences`` in ``anaphora compare --json``."""
    return {
        "name": value.full_name,
        "unit": value.unit,
        "a": _rounded(value.a),
        "b": _rounded(value.b),
        "num_a": value.num_a,
        "num_b": value.num_b,
        "change": _rounded(value.change),
        "change_interval": _interval_as_json(value.change_interval),
        "relative_percent": _rounded(value.relative_percent),
        "relative_interval": _interval_as_json(value.relative_interval),
        "is_chance": value.is_chance,
    }


def _enough(quantity: Quantity) -> bool:
    return all(len(cell.keys) >= MIN_SAMPLES for cell in quantity.cells)


def _resampled(a: Quantity, b: Quantity, rng: np.random.Generator) -> tuple[Samples, Samples]:
    """The figure of both runs, ``NUM_RESAMPLES`` times."""
    drawn: tuple[list[Samples], list[Samples]] = ([], [])
    together = len(a.cells) == len(b.cells) and all(map(_can_pair, a.cells, b.cells))
    for number in range(max(len(a.cells), len(b.cells))):
        chosen = None
        for quantity, rows in zip((a, b), drawn, strict=True):
            if number < len(quantity.cells):
                cell = quantity.cells[number]
                if chosen is None or not together:
                    chosen = rng.integers(0, len(cell.keys), (NUM_RESAMPLES, len(cell.keys)))
                rows.append(cell.rows[chosen])
    return a.statistic(drawn[0]), b.statistic(drawn[1])


def _can_pair(a: Cell, b: Cell) -> bool:
    return a.keys == b.keys and len(a.keys) >= _MIN_PAIRS


def _percentiles(values: Samples) -> Interval | None:
    finite = values[np.isfinite(values)]
    if len(finite) < len(values):
        return None
    low, high = np.quantile(finite, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high), LEVEL)


def _ratio(a: Samples, b: Samples) -> Interval | None:
    """Of the relative change in per cent. ``None`` if A may be 0 or below: a share of that says nothing."""
    return None if np.quantile(a, (1 - LEVEL) / 2) <= 0 else _percentiles((b / a - 1) * 100)


def _interval_as_json(value: Interval | None) -> dict[str, float] | None:
    if value is None:
        return None
    return {"low": round(value.low, 4), "high": round(value.high, 4), "level": value.level}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)

"""The terms of the costs experiment as figures: fitted as its report fits them, over all cells together."""

from collections.abc import Sequence
from typing import get_args

import numpy as np

from anaphora.lab.comparison.quantity import Cell, Quantity, Statistic, Unit
from anaphora.lab.experiments.two_variable import without_strays
from anaphora.lab.statistics import Samples
from anaphora.lab.timings import ttft_ms
from anaphora.lab.token_costs import ALL_TERMS, PRODUCT, Point, design, fit_token_costs
from anaphora.lab.witnesses import cached_tokens, prompt_tokens
from anaphora.traces.records import RequestRecord

PLACE = "costs"
_UNITS: Sequence[Unit] = ("ms", "ms/1000 tokens", "ms/1000 tokens", "ms/(1000 tokens)²", "ms/(1000 tokens)²")
assert set(_UNITS) <= set(get_args(Unit))


def quantities_of_costs(groups: Sequence[Sequence[RequestRecord]]) -> list[Quantity]:
    """The five terms; none where the requests do not separate them, as terms of a shorter formula are other figures."""
    points = [_points(str(number), records) for number, records in enumerate(groups)]
    fit = fit_token_costs([point for members in points for point in members], tries_product=True)
    if fit is None or PRODUCT not in fit.terms.values:
        return []
    cells = tuple(
        Cell(
            tuple(range(len(members))),
            np.array([(p.computed_tokens, p.cached_tokens, p.ttft_ms) for p in members], dtype=float),
        )
        for members in points
        if members
    )
    return [
        Quantity(PLACE, name, unit, cells, _term(number, fit.noise_power))
        for number, (name, unit) in enumerate(zip(ALL_TERMS, _UNITS, strict=True))
    ]


def _points(cell: str, records: Sequence[RequestRecord]) -> list[Point]:
    known = [
        Point(cell, length - cached, cached, time)
        for record in records
        if (length := prompt_tokens(record)) is not None
        and (cached := cached_tokens(record)) is not None
        and (time := ttft_ms(record)) is not None
    ]
    return without_strays(known)


def _term(number: int, noise_power: float) -> Statistic:
    """The term of that number by least squares, weighted for noise that grows as this power of the time."""

    def statistic(cells: Sequence[Samples]) -> Samples:
        points = np.concatenate(cells, axis=-2)
        columns, times = design(points[..., 0], points[..., 1]), points[..., 2]
        plain = _solved(columns, times, np.ones_like(times))
        fitted = np.maximum(np.einsum("...ij,...j->...i", columns, plain), times.min(axis=-1, keepdims=True))
        return np.asarray(_solved(columns, times, fitted ** (-2 * noise_power))[..., number])

    return statistic


def _solved(columns: Samples, times: Samples, weights: Samples) -> Samples:
    weighted = columns * weights[..., None]
    squares = np.einsum("...ni,...nj->...ij", weighted, columns)
    sums = np.einsum("...ni,...n->...i", weighted, times)
    return np.asarray(np.einsum("...ij,...j->...i", np.linalg.pinv(squares), sums))

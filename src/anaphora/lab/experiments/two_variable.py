"""TTFT against computed and cached tokens separately, from records to what ``results.json`` holds."""

from collections.abc import Callable, Sequence
from typing import Any

from anaphora.lab.experiments.summary import interval, ms
from anaphora.lab.statistics import median
from anaphora.lab.timings import ttft_ms
from anaphora.lab.token_costs import PRODUCT, Point, Terms, TokenCosts, fit_token_costs
from anaphora.lab.witnesses import cached_tokens, prompt_tokens
from anaphora.traces.records import RequestRecord

_DIGITS = 6
_FORMULA = "fixed + a · computed + b · cached + c · computed²"
_WITH_PRODUCT = " + d · computed · cached"
_LEAST_STRAY, _STRAY_SCATTERS = 0.5, 8.0
_NORMAL = 1.4826
"""Standard deviations of normal noise in its median distance."""


def two_variable(
    records: Sequence[RequestRecord], cell_of: Callable[[RequestRecord], str], *, tries_product: bool = False
) -> dict[str, Any] | None:
    """The fit over measured requests whose cached tokens are known; ``None`` where it cannot separate its terms.
    ``tries_product``: computed and cached tokens vary apart, so that their product can be a term too."""
    points = [point for record in records if (point := point_of(record, cell_of(record))) is not None]
    usual = without_strays(points)
    costs = fit_token_costs(usual, tries_product=tries_product)
    return None if costs is None else {**_as_stored(costs, usual), "num_strays": len(points) - len(usual)}


def without_strays(points: Sequence[Point]) -> list[Point]:
    """Points but for those that took far longer than their like: something else held these up.

    Far is half as long again at least, and eight times the usual scatter of all cells: noise alone does not reach it.
    """
    by_cell: dict[str, list[float]] = {}
    for point in points:
        by_cell.setdefault(point.cell, []).append(point.ttft_ms)
    medians = {cell: median(times) or 0.0 for cell, times in by_cell.items()}
    excess = [point.ttft_ms / medians[point.cell] - 1 for point in points]
    repeated = [abs(value) for value, point in zip(excess, points, strict=True) if len(by_cell[point.cell]) > 2]
    limit = max(_LEAST_STRAY, _STRAY_SCATTERS * _NORMAL * (median(repeated) or 0.0))
    return [point for value, point in zip(excess, points, strict=True) if value <= limit]


def point_of(record: RequestRecord, cell: str) -> Point | None:
    """A measured request as the fit takes it; ``None`` if something of it is not known."""
    time, prompt, cached = ttft_ms(record), prompt_tokens(record), known_cached_tokens(record)
    if record.phase != "measured" or time is None or prompt is None or cached is None:
        return None
    return Point(cell, prompt - cached, cached, time)


def known_cached_tokens(record: RequestRecord) -> int | None:
    """As the server tells, else as predicted."""
    told = cached_tokens(record)
    return record.predicted_cached_tokens if told is None else told


def _as_stored(costs: TokenCosts, points: Sequence[Point]) -> dict[str, Any]:
    shorter = costs.without_product
    return {
        "formula": _FORMULA + (_WITH_PRODUCT if PRODUCT in costs.terms.values else ""),
        "terms": _terms(costs.terms),
        "product_ms_per_ktoken2": interval(costs.terms.intervals.get(PRODUCT), ms),
        "r2": _rounded(costs.terms.r2),
        "without_product": None
        if shorter is None
        else {
            "terms": _terms(shorter),
            "r2": _rounded(shorter.r2),
            "aicc_more": _rounded(costs.aicc_without_product),
        },
        "num_points": len(points),
        "noise_power": costs.noise_power,
        "computed_tokens_range": list(costs.computed_range),
        "cached_tokens_range": list(costs.cached_range),
        "cells": _cells(costs.terms, points),
    }


def _terms(terms: Terms) -> dict[str, Any]:
    return {
        name: {"value": _rounded(value), "interval": interval(terms.intervals[name], ms)}
        for name, value in terms.values.items()
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)


def _cells(terms: Terms, points: Sequence[Point]) -> list[dict[str, Any]]:
    """The residuals by cell: where the formula is wrong, they keep one sign."""
    by_cell: dict[str, list[tuple[Point, float]]] = {}
    for point, residual in zip(points, terms.residuals_ms, strict=True):
        by_cell.setdefault(point.cell, []).append((point, residual))
    rows = [
        {
            "cell": name,
            "computed_tokens": median([point.computed_tokens for point, _ in members]),
            "cached_tokens": median([point.cached_tokens for point, _ in members]),
            "num_requests": len(members),
            "ttft_ms": ms(median([point.ttft_ms for point, _ in members])),
            "residual_ms": ms(median([residual for _, residual in members])),
        }
        for name, members in by_cell.items()
    ]
    return sorted(rows, key=lambda row: (row["cached_tokens"], row["computed_tokens"]))

"""What a computed token and a cached one cost: TTFT = fixed + a · computed + b · cached + c · computed².

Least squares over single requests. Timing noise often grows with the time, so its power is chosen by likelihood from
the spread within cells of equal requests, and the points are weighted by it. Intervals are Student's with
heteroscedasticity-consistent errors (HC3: MacKinnon and White, Journal of Econometrics 29, 1985).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from anaphora.lab.statistics import LEVEL, Interval, Samples

TERMS = ("fixed_ms", "computed_ms_per_ktoken", "cached_ms_per_ktoken", "computed_squared_ms_per_ktoken2")
_POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)
_LEAST_VARIED = 1e-3
"""Singular values of the scaled design below this share of the greatest: two terms cannot be told apart."""


@dataclass(frozen=True, slots=True)
class Point:
    """One request. Requests of one ``cell`` were meant to be equal."""

    cell: str
    computed_tokens: float
    cached_tokens: float
    ttft_ms: float


@dataclass(frozen=True, slots=True)
class TokenCosts:
    """Values and 95 % intervals by name of :data:`TERMS`; ``residuals_ms`` in the order of the points."""

    values: dict[str, float]
    intervals: dict[str, Interval]
    r2: float | None
    residuals_ms: tuple[float, ...]
    noise_power: float
    """The standard deviation of a time grows as this power of the time: 0 constant, 1 in proportion."""
    computed_range: tuple[float, float]
    cached_range: tuple[float, float]

    product: Interval | None
    """Milliseconds for a thousand computed times a thousand cached tokens, where that is added as a fifth term:
    computed tokens attend to cached ones. ``None``: not asked, or the points do not separate it from the others."""

    def at(self, computed_tokens: float, cached_tokens: float) -> float:
        """The fitted milliseconds."""
        row = _design(np.array([computed_tokens]), np.array([cached_tokens]))[0]
        return float(row @ np.array([self.values[name] for name in TERMS]))


def fit_token_costs(points: Sequence[Point], *, tries_product: bool = False) -> TokenCosts | None:
    """The fit; ``None`` where the points do not separate the four terms, or are no more than these.

    ``tries_product``: see :attr:`TokenCosts.product`. It takes points whose computed and cached tokens vary apart: of
    two arms, one of which computes next to nothing and the other finds nothing cached, the product says nothing.
    """
    computed = np.array([point.computed_tokens for point in points], dtype=float)
    cached = np.array([point.cached_tokens for point in points], dtype=float)
    times = np.array([point.ttft_ms for point in points], dtype=float)
    design = _design(computed, cached)
    if len(points) <= len(TERMS) or not _separates(design):
        return None
    power = noise_power(
        [[p.ttft_ms for p in points if p.cell == cell] for cell in dict.fromkeys(p.cell for p in points)]
    )
    values, half = _weighted_fit(design, times, power)
    residuals = times - design @ values
    total = float(np.sum((times - times.mean()) ** 2))
    return TokenCosts(
        values=dict(zip(TERMS, map(float, values), strict=True)),
        intervals={
            name: Interval(float(value - width), float(value + width), LEVEL)
            for name, value, width in zip(TERMS, values, half, strict=True)
        },
        r2=None if total == 0 else 1 - float(residuals @ residuals) / total,
        residuals_ms=tuple(map(float, residuals)),
        noise_power=power,
        computed_range=(float(computed.min()), float(computed.max())),
        cached_range=(float(cached.min()), float(cached.max())),
        product=_product(design, times, power) if tries_product else None,
    )


def _weighted_fit(design: Samples, times: Samples, power: float) -> tuple[Samples, Samples]:
    """Coefficients, and half the widths of their intervals, for noise that grows as this power of the time."""
    values = _solve(design, times, np.ones_like(times))
    scale = np.maximum(design @ values, float(times.min())) ** power
    values = _solve(design, times, 1 / scale)
    return values, _half_widths(design / scale[:, None], (times - design @ values) / scale)


def _product(design: Samples, times: Samples, power: float) -> Interval | None:
    """The interval of a fifth term, computed times cached."""
    wider = np.column_stack([design, design[:, 1] * design[:, 2]])
    if len(times) <= wider.shape[1] or not _separates(wider):
        return None
    values, half = _weighted_fit(wider, times, power)
    return Interval(float(values[-1] - half[-1]), float(values[-1] + half[-1]), LEVEL)


def noise_power(cells: Sequence[Sequence[float]]) -> float:
    """The power of the mean in which the spread of equal requests grows, by profile likelihood; 0 without repeats."""
    repeated = [np.asarray(cell, dtype=float) for cell in cells if len(cell) > 1]
    variances = np.array([cell.var(ddof=1) for cell in repeated])
    if not repeated or not variances.any():
        return 0.0
    means, freedom = np.array([cell.mean() for cell in repeated]), np.array([len(cell) - 1.0 for cell in repeated])

    def log_likelihood(power: float) -> float:
        shape = means ** (2 * power)
        level = float(np.sum(freedom * variances / shape) / freedom.sum())
        return -0.5 * float(np.sum(freedom * np.log(level * shape)))

    return max(_POWERS, key=log_likelihood)


def _design(computed: Samples, cached: Samples) -> Samples:
    thousands = computed / 1000
    return np.column_stack([np.ones_like(thousands), thousands, cached / 1000, thousands**2])


def _separates(design: Samples) -> bool:
    norms = np.linalg.norm(design, axis=0)
    if not norms.all():
        return False
    singular = np.linalg.svd(design / norms, compute_uv=False)
    return bool(singular[-1] > _LEAST_VARIED * singular[0])


def _solve(design: Samples, times: Samples, weights: Samples) -> Samples:
    return np.asarray(np.linalg.lstsq(design * weights[:, None], times * weights, rcond=None)[0])


def _half_widths(design: Samples, residuals: Samples) -> Samples:
    inverse = np.linalg.pinv(design.T @ design)
    leverage = np.einsum("ij,jk,ik->i", design, inverse, design)
    inflated = residuals / np.maximum(1 - leverage, 1e-6)
    covariance = inverse @ (design.T * inflated**2) @ design @ inverse
    quantile = float(special.stdtrit(len(residuals) - design.shape[1], (1 + LEVEL) / 2))
    return np.asarray(quantile * np.sqrt(np.diag(covariance)))

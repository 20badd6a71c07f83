"""What a computed token and a cached one cost: TTFT = fixed + a · computed + b · cached + c · computed² +
d · computed · cached.

Least squares over single requests. Timing noise often grows with the time, so its power is chosen by likelihood from
the spread within cells of equal requests, and the points are weighted by it. Intervals are Student's with
heteroscedasticity-consistent errors (HC3: MacKinnon and White, Journal of Econometrics 29, 1985).

New tokens attend to each other, which gives the square, and to the cached ones, which gives the product. Whether the
product is a term is decided by what was sent, never by how it comes out: a term that is left out where it looks like
noise makes the intervals of the others too short (H. Leeb and B. M. Pötscher, Model selection and inference: facts and
fiction, Econometric Theory 21, 2005; measured in ``benchmarks/lab/formula_choice.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from anaphora.lab.statistics import LEVEL, Interval, Samples

PRODUCT = "computed_cached_ms_per_ktoken2"
TERMS = ("fixed_ms", "computed_ms_per_ktoken", "cached_ms_per_ktoken", "computed_squared_ms_per_ktoken2")
ALL_TERMS = (*TERMS, PRODUCT)
_POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)
_LEAST_VARIED = 1e-3
"""Singular values of the scaled design below this share of the greatest: two terms cannot be told apart."""
_LEAST_FOR_PRODUCT = len(ALL_TERMS) + 3
"""Points; fewer have no Akaike criterion."""
_LEAST_VARIANCE = 1e-18
"""Of times in milliseconds: below it is rounding, not noise."""


@dataclass(frozen=True, slots=True)
class Point:
    """One request. Requests of one ``cell`` were meant to be equal."""

    cell: str
    computed_tokens: float
    cached_tokens: float
    ttft_ms: float


@dataclass(frozen=True, slots=True)
class Terms:
    """One formula's values and 95 % intervals by name, in the order of :data:`ALL_TERMS`."""

    values: dict[str, float]
    intervals: dict[str, Interval]
    r2: float | None
    residuals_ms: tuple[float, ...]
    """In the order of the points."""

    def at(self, computed_tokens: float, cached_tokens: float) -> float:
        """The fitted milliseconds."""
        row = design(np.array([computed_tokens]), np.array([cached_tokens]))[0]
        return sum(float(row[ALL_TERMS.index(name)]) * value for name, value in self.values.items())


@dataclass(frozen=True, slots=True)
class TokenCosts:
    """What the points say. ``terms`` has :data:`PRODUCT` if the points separate it and it was asked for."""

    terms: Terms
    noise_power: float
    """The standard deviation of a time grows as this power of the time: 0 constant, 1 in proportion."""
    computed_range: tuple[float, float]
    cached_range: tuple[float, float]
    without_product: Terms | None
    """The shorter formula by the same weights; ``None`` where ``terms`` is that already."""
    aicc_without_product: float | None
    """By how much the shorter formula's Akaike criterion for few samples is higher; lower is better. It is told, and
    decides nothing."""


def fit_token_costs(points: Sequence[Point], *, tries_product: bool = False) -> TokenCosts | None:
    """The fit; ``None`` where the points do not separate the first four terms, or are hardly more than these.

    ``tries_product``: computed and cached tokens vary apart, so that the product is to be a term. Of two arms, one of
    which computes next to nothing and the other finds nothing cached, it says nothing.
    """
    computed = np.array([point.computed_tokens for point in points], dtype=float)
    cached = np.array([point.cached_tokens for point in points], dtype=float)
    times = np.array([point.ttft_ms for point in points], dtype=float)
    wide = design(computed, cached)
    has_product = tries_product and len(points) >= _LEAST_FOR_PRODUCT and _separates(wide)
    names = ALL_TERMS if has_product else TERMS
    if not has_product and not _separates(wide[:, : len(names)]):
        return None
    power = noise_power(
        [[p.ttft_ms for p in points if p.cell == cell] for cell in dict.fromkeys(p.cell for p in points)]
    )
    scale = _scale(wide[:, : len(names)], times, power)
    terms = _fit(names, wide, times, scale)
    shorter = _fit(TERMS, wide, times, scale) if has_product else None
    return TokenCosts(
        terms=terms,
        noise_power=power,
        computed_range=(float(computed.min()), float(computed.max())),
        cached_range=(float(cached.min()), float(cached.max())),
        without_product=shorter,
        aicc_without_product=None if shorter is None else _aicc(shorter, scale) - _aicc(terms, scale),
    )


def design(computed: Samples, cached: Samples) -> Samples:
    """What :data:`ALL_TERMS` are multiplied by, [..., 5], for tokens [...]."""
    n, m = computed / 1000, cached / 1000
    return np.stack([np.ones_like(n), n, m, n**2, n * m], axis=-1)


def _fit(names: Sequence[str], wide: Samples, times: Samples, scale: Samples) -> Terms:
    """By the first columns of the design, for noise in proportion to ``scale``."""
    columns = wide[:, : len(names)]
    values = _solve(columns, times, 1 / scale)
    residuals = times - columns @ values
    half = _half_widths(columns / scale[:, None], residuals / scale)
    total = float(np.sum((times - times.mean()) ** 2))
    return Terms(
        values=dict(zip(names, map(float, values), strict=True)),
        intervals={
            name: Interval(float(value - width), float(value + width), LEVEL)
            for name, value, width in zip(names, values, half, strict=True)
        },
        r2=None if total == 0 else 1 - float(residuals @ residuals) / total,
        residuals_ms=tuple(map(float, residuals)),
    )


def _scale(columns: Samples, times: Samples, power: float) -> Samples:
    """How the noise grows from point to point, by the times of a first fit."""
    values = _solve(columns, times, np.ones_like(times))
    return np.asarray(np.maximum(columns @ values, float(times.min())) ** power)


def _aicc(terms: Terms, scale: Samples) -> float:
    """For normal noise in proportion to ``scale``, but for what all formulas have in common."""
    num_points, num_fitted = len(scale), len(terms.values) + 1  # the level of the noise is fitted too
    variance = max(float(np.mean((np.array(terms.residuals_ms) / scale) ** 2)), _LEAST_VARIANCE)
    return num_points * (float(np.log(variance)) + 2 * num_fitted / (num_points - num_fitted - 1))


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


def _separates(columns: Samples) -> bool:
    norms = np.linalg.norm(columns, axis=0)
    if len(columns) <= columns.shape[1] or not norms.all():
        return False
    singular = np.linalg.svd(columns / norms, compute_uv=False)
    return bool(singular[-1] > _LEAST_VARIED * singular[0])


def _solve(columns: Samples, times: Samples, weights: Samples) -> Samples:
    return np.asarray(np.linalg.lstsq(columns * weights[:, None], times * weights, rcond=None)[0])


def _half_widths(columns: Samples, residuals: Samples) -> Samples:
    inverse = np.linalg.pinv(columns.T @ columns)
    leverage = np.einsum("ij,jk,ik->i", columns, inverse, columns)
    inflated = residuals / np.maximum(1 - leverage, 1e-6)
    covariance = inverse @ (columns.T * inflated**2) @ columns @ inverse
    quantile = float(special.stdtrit(len(residuals) - columns.shape[1], (1 + LEVEL) / 2))
    return np.asarray(quantile * np.sqrt(np.diag(covariance)))

"""Quantiles and shares that say how many samples stand behind them, and are silent where the sample cannot tell."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
from scipy import special

from anaphora.lab import statistics
from anaphora.lab.statistics import LEVEL, Interval, Z


@dataclass(frozen=True, slots=True)
class Quantile:
    """A sample's quantile. ``low`` and ``high``: order statistics that hold the population's one with 95 %
    probability if requests are independent; ``None``: the sample does not reach that far."""

    value: float
    low: float | None
    high: float | None
    num_samples: int


def quantile(values: Sequence[float], fraction: float) -> Quantile | None:
    """By linear interpolation. ``None`` if fewer than one sample is to be expected on either side: P99 takes 100
    samples, P90 takes 10, P50 takes 2."""
    n, value = len(values), statistics.quantile(values, fraction)
    if value is None or n < least_samples(fraction):
        return None
    ordered = sorted(values)
    below, above = _ranks(n, fraction)
    return Quantile(
        value,
        None if below < 1 else ordered[below - 1],
        None if above > n else ordered[above - 1],
        n,
    )


def _ranks(n: int, fraction: float) -> tuple[int, int]:
    """Ranks from 1 of the two order statistics; 0, or n + 1, where there is none (equal tails of the binomial)."""
    tail = (1 - LEVEL) / 2
    cumulated = special.bdtr(np.arange(n + 1, dtype=float), n, fraction)
    return int(np.searchsorted(cumulated, tail)), int(np.searchsorted(cumulated, 1 - tail)) + 1


def wilson(num_within: int, num_all: int) -> Interval | None:
    """Wilson's score interval for a share; ``None`` of nothing.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927).
    """
    if num_all == 0:
        return None
    share, spread = num_within / num_all, Z**2 / num_all
    middle = (share + spread / 2) / (1 + spread)
    half = Z / (1 + spread) * sqrt(share * (1 - share) / num_all + spread / (4 * num_all))
    low = 0.0 if num_within == 0 else middle - half
    high = 1.0 if num_within == num_all else middle + half
    return Interval(low, high, LEVEL)


def least_samples(fraction: float) -> int:
    """How many samples a quantile takes."""
    return ceil(1 / min(fraction, 1 - fraction) - 1e-9)

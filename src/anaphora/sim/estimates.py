"""From a sample to the whole trace: hit rates, and how wrong they can be expected to be.

LRU of the whole trace is known at every capacity, from reuse distances: no sample is needed for it. So a sample is
asked only how far a policy is from LRU, in a cache where LRU does as well on the sample as it does on the whole.
"""

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np

from anaphora.sim.lru_curve import LRUCurve
from anaphora.sim.references import Ints

_DEEP = 0.95
"""Of all reuses, those that are not among the deepest: how many blocks of their prompt they stand behind."""


class Estimate(NamedTuple):
    """``error``: one standard error, in the unit of ``rate``; ``None`` where a single group tells nothing of others."""

    rate: float
    error: float | None


class RuleCount(NamedTuple):
    """What one rule counts on one set of prompts: by LRU at all capacities, and of how many tokens (or blocks) in all.

    ``num_extra``: blocks that a running request needs besides those that are cached, 1 by the engine's rule.
    """

    lru: LRUCurve
    num_tokens: int
    num_extra: int

    def by_lru(self, num_blocks: int | None) -> int:
        """What LRU serves from so many blocks."""
        return self.lru.num_hits(None if num_blocks is None else num_blocks - self.num_extra)


class SampledCount(NamedTuple):
    """What a policy's replay of the sample counted, request by request, in a cache of ``num_blocks``."""

    hits: Ints
    groups: Ints
    """The group of each request, numbered from 0."""
    fraction: float
    num_blocks: int


def matching_capacity(whole: RuleCount, part: RuleCount, num_blocks: int, scale: float) -> int:
    """The size of the sample's cache in which LRU serves the same share of all reuses as in the whole one's.

    In proportion (``scale``) it would be too small: a prompt's own beginning takes up as many blocks in a sample's
    cache as in the whole one. So it is never smaller than that, and larger by no more than what deep prompts take up:
    where LRU serves the same at many sizes, as nothing is asked for again at some distances, it tells little of sizes.
    """
    in_proportion = max(1, round(num_blocks * scale))
    all_served = whole.by_lru(None)
    if not all_served or not part.by_lru(None):
        return in_proportion
    matching = part.lru.least_capacity(whole.by_lru(num_blocks) / all_served) + part.num_extra
    return min(max(matching, in_proportion), in_proportion + round((1 - scale) * part.lru.depth_of(_DEEP)))


def estimate(whole: RuleCount, num_blocks: int, part: RuleCount, sampled: SampledCount) -> Estimate:
    """The policy's rate in a cache of ``num_blocks`` for the whole trace.

    A policy that beats LRU in the sample closes the same share of the gap between LRU and a cache without bounds; one
    that does not keeps the same share of what LRU serves. The error is the jackknife's over groups, linearised (Wolter,
    "Introduction to variance estimation", chapter 4); added to it is what the sample's cache cannot serve by any policy
    because a prompt does not fit into it that fits into the whole one.
    """
    low, high = whole.by_lru(num_blocks), whole.by_lru(None)
    by_lru = _by_group(part.lru.hits_by_request(sampled.num_blocks - part.num_extra), sampled.groups)
    at_most = _by_group(part.lru.hits_by_request(None), sampled.groups)
    hits = _by_group(sampled.hits, sampled.groups)
    room = int(at_most.sum() - by_lru.sum())
    if hits.sum() < by_lru.sum():
        share, spread = _ratio(hits, by_lru, sampled.fraction)
        error = None if spread is None else low * spread
        return _of(low * share, error, whole.num_tokens)
    if not room:
        return _of(low, 0.0 if high == low else None, whole.num_tokens)
    share, spread = _ratio(hits - by_lru, at_most - by_lru, sampled.fraction)
    too_deep = part.lru.num_hits_deeper_than(sampled.num_blocks) / room
    error = None if spread is None else (high - low) * sqrt(spread**2 + min(too_deep, 1.0) ** 2)
    return _of(low + (high - low) * share, error, whole.num_tokens)


def exact(whole: RuleCount, num_blocks: int | None) -> Estimate:
    """LRU's rate, and that of any policy without bounds. Known, but for the block more that LRU may have for a request
    that needs none besides those that are cached."""
    served = whole.by_lru(num_blocks)
    return _of(served, whole.lru.num_hits(num_blocks) - served, whole.num_tokens)


def _of(hits: float, error: float | None, num_tokens: int) -> Estimate:
    return Estimate(hits / num_tokens, None if error is None else error / num_tokens)


def _by_group(values: Ints, groups: Ints) -> Ints:
    counts = np.bincount(groups[: len(values)], values, int(groups.max()) + 1)
    return counts.astype(np.int64)


def _ratio(above: Ints, below: Ints, fraction: float) -> tuple[float, float | None]:
    """A ratio of two sums over groups, and its standard error in a sample of that fraction of all groups.

    Groups that all agree are no proof that others do: the error is not less than if one group of the usual weight, had
    it been drawn too, had turned out otherwise.
    """
    ratio = float(above.sum() / below.sum())
    if len(above) < 2:
        return ratio, None
    residuals, weights = (above - ratio * below) / below.sum(), below / below.sum()
    jackknife = len(above) / (len(above) - 1) * float(residuals @ residuals)
    return ratio, sqrt((1 - fraction) * (jackknife + float(weights @ weights) ** 2))


def as_array(values: Sequence[int]) -> Ints:
    """Counts, one a request."""
    return np.asarray(values, np.int64)

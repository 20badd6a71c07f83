"""Block size and minimum from times alone: the time of an answer falls in steps as the shared beginning grows.

Each pair (block size, minimum) of a list says how many tokens of each prompt were computed; the time is a line in
these (and in their square, for attention). The pair whose line leaves the least is weighed against the others by the
likelihoods of normal errors. It counts only if all others together are unlikely, and both halves of the sample
choose it too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anaphora.lab.probe.judging import LEAST_ERROR, MAX_ERROR

BLOCK_SIZES = (1, 8, 16, 32, 64, 128, 256, 512, 1024)
MINIMA = (0, 256, 512, 1024, 2048, 4096)
"""Tokens of shared beginning below which nothing is reused, besides the block."""
_RESOLUTION_MS = 0.05
"""What a client can tell apart; a line that fits better than this is not better."""
_LEAST_SAMPLES = 12
_NOTHING = (0, 0)
"""Stands for a cache that reuses nothing of any of the prompts."""
_LIMIT_ERROR = 1e-4
"""A limit is a statement about sizes that were not chosen: it must be surer than a choice."""
Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Timed:
    """A prompt of so many tokens that shared so many with an earlier one, and its time."""

    num_tokens: int
    num_shared: int
    ms: float


@dataclass(frozen=True, slots=True)
class Chosen:
    """A value that the times choose, and the chance that it is another of the list. ``is_limit``: it is this or a
    smaller one."""

    value: int
    error_chance: float
    is_limit: bool = False


@dataclass(frozen=True, slots=True)
class StepsByTime:
    """``None``: the times do not choose."""

    block_size: Chosen | None
    minimum: Chosen | None


def steps_by_time(timed: Sequence[Timed]) -> StepsByTime:
    """Which block size and which minimum the times choose."""
    if len(timed) < _LEAST_SAMPLES or np.ptp([one.num_shared for one in timed]) == 0:
        return StepsByTime(None, None)
    whole = _weights(timed)
    halves = [_weights(timed[start::2]) for start in (0, 1)]
    if whole.get(_NOTHING, 0.0) > MAX_ERROR:
        return StepsByTime(None, None)
    return StepsByTime(_choose(whole, halves, 0), _choose(whole, halves, 1))


def num_computed(one: Timed, block_size: int, minimum: int) -> int:
    """Tokens computed of a prompt by a cache of such blocks that reuses nothing shorter than the minimum."""
    cached = min(one.num_shared, one.num_tokens - 1) // block_size * block_size
    return one.num_tokens - (cached if cached >= minimum else 0)


def _weights(timed: Sequence[Timed]) -> dict[tuple[int, int], float]:
    """The share of each pair in the likelihood of all; pairs that compute the same are one, named by the smallest."""
    ms = np.array([one.ms for one in timed])
    distinct: dict[bytes, tuple[int, int]] = {}
    for block_size in BLOCK_SIZES:
        for minimum in MINIMA:
            computed = np.array([num_computed(one, block_size, minimum) for one in timed], dtype=float)
            is_any_reused = bool((computed < [one.num_tokens for one in timed]).any())
            distinct.setdefault(computed.tobytes(), (block_size, minimum) if is_any_reused else _NOTHING)
    logs = {
        pair: -len(ms) / 2 * np.log(max(_residual(np.frombuffer(key), ms), len(ms) * _RESOLUTION_MS**2))
        for key, pair in distinct.items()
    }
    if _NOTHING in logs:  # its line is flat: two numbers fewer to fit with (Schwarz)
        logs[_NOTHING] += float(np.log(len(ms)))
    greatest = max(logs.values())
    parts = {pair: float(np.exp(log - greatest)) for pair, log in logs.items()}
    return {pair: part / sum(parts.values()) for pair, part in parts.items()}


def _residual(computed: Values, ms: Values) -> float:
    """The squares left by the best line whose time does not fall with more computed tokens."""
    scaled = computed / 1000
    columns = np.column_stack([np.ones_like(scaled), scaled, scaled**2])
    solution, *_ = np.linalg.lstsq(columns, ms, rcond=None)
    if solution[1] + 2 * solution[2] * float(scaled.mean()) <= 0:
        return float(((ms - ms.mean()) ** 2).sum())
    return float(((ms - columns @ solution) ** 2).sum())


def _choose(
    whole: dict[tuple[int, int], float], halves: Sequence[dict[tuple[int, int], float]], place: int
) -> Chosen | None:
    sums = _by_value(whole, place)
    value = max(sums, key=lambda one: sums[one])
    if sums[value] >= 1 - MAX_ERROR and all(_likeliest(half, place) == value for half in halves):
        return Chosen(value, max(LEAST_ERROR, 1 - sums[value]))
    limit = next((one for one in sorted(sums) if _up_to(sums, one) >= 1 - _LIMIT_ERROR), max(sums))
    if limit == max(sums) or any(_likeliest(half, place) > limit for half in halves):
        return None
    return Chosen(limit, max(LEAST_ERROR, 1 - _up_to(sums, limit)), is_limit=True)


def _by_value(weights: dict[tuple[int, int], float], place: int) -> dict[int, float]:
    sums: dict[int, float] = {}
    for pair, weight in weights.items():
        sums[pair[place]] = sums.get(pair[place], 0.0) + weight
    return sums


def _up_to(sums: dict[int, float], limit: int) -> float:
    return sum(weight for value, weight in sums.items() if value <= limit)


def _likeliest(weights: dict[tuple[int, int], float], place: int) -> int:
    sums = _by_value(weights, place)
    return max(sums, key=lambda one: sums[one])

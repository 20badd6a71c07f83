"""What a trace itself tells of caches, before any is tried: how soon blocks are used again, and how many are in use."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from anaphora.sim.lru_curve import LRUCurve, engine_curve
from anaphora.sim.prompt_blocks import PromptBlocks
from anaphora.sim.references import Ints, References
from anaphora.sim.working_set import Floats, clock_of, distinct_so_far, times_to_reuse, working_set

_NUM_POINTS = 128
_QUANTILES = {"p10": 0.1, "median": 0.5, "p90": 0.9, "p99": 0.99}
_WINDOWS_S = (1, 10, 60, 600, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600)
_WINDOWS_REQUESTS = tuple(10**exponent for exponent in range(1, 9))
_LEAST_OF_THE_WHOLE = 4
"""A window shows something if so many of it fit into the trace."""


def reuse_of(prompts: Sequence[PromptBlocks], computed_paths: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Reuse distances, times to reuse, the working set over time and LRU at all capacities, of full blocks."""
    curve = engine_curve(prompts, computed_paths)
    references, reuses = curve.references, curve.distances
    times = clock_of([prompt.arrival_s for prompt in prompts])
    return {
        "block_uses": len(references),
        "first_uses": len(references) - len(reuses),
        "distance_blocks": _distribution(reuses.astype(np.float64)),
        "time_to_reuse_s": None if times is None else _distribution(times_to_reuse(references, times)),
        "working_set": _working_set(references, times, len(prompts)),
        "lru": _lru(prompts, curve, int(reuses.max(initial=0)) + 1),
    }


def _distribution(values: Floats) -> dict[str, Any] | None:
    """Some quantiles, and the share of values that are at most as large as each of a row of sizes."""
    if not len(values):
        return None
    values = np.sort(values)
    least = values[values > 0].min(initial=values[-1])
    at = np.array(sorted({0.0, *_log_spaced(least, values[-1]).tolist()}))
    shares = np.searchsorted(values, at, side="right") / len(values)
    quantiles = {name: float(np.quantile(values, q, method="inverted_cdf")) for name, q in _QUANTILES.items()}
    return quantiles | {"at_most": _rounded(at), "share": _rounded(shares)}


def _log_spaced(low: float, high: float, num_points: int = _NUM_POINTS) -> Floats:
    """From ``low`` to ``high``, both included, each so many times the one before."""
    return np.geomspace(low, high, num_points) if 0 < low < high else np.array([high])


def _working_set(references: References, times: Floats | None, num_requests: int) -> dict[str, Any]:
    """Sampled at equal steps; requests are the clock where the trace does not tell the time."""
    clock = np.arange(num_requests, dtype=np.float64) if times is None else times
    at = np.linspace(0, clock[-1], 2 * _NUM_POINTS + 1)
    known = _WINDOWS_REQUESTS if times is None else _WINDOWS_S
    fitting = [window for window in known if _LEAST_OF_THE_WHOLE * window <= clock[-1]][-2:]
    return {
        "clock": "requests" if times is None else "seconds",
        "at": _rounded(at),
        "distinct_so_far": distinct_so_far(references, clock, at).tolist(),
        "windows": [
            {"length": window, "blocks": working_set(references, clock, window, at).tolist()} for window in fitting
        ],
    }


def _lru(prompts: Sequence[PromptBlocks], curve: LRUCurve, largest: int) -> dict[str, Any]:
    num_tokens = sum(prompt.num_tokens for prompt in prompts)
    sizes = sorted(set(np.round(_log_spaced(1, largest, 2 * _NUM_POINTS)).astype(np.int64).tolist()))
    rates = [curve.num_hits(size) / num_tokens for size in sizes]
    return {"capacity_blocks": sizes, "token_hit_rate": [round(rate, 6) for rate in rates]}


def _rounded(values: Floats | Ints) -> list[float]:
    return [float(f"{value:.6g}") for value in values]

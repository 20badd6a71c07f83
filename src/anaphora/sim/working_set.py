"""The working set: how many different blocks were used within a time (Denning, CACM 1968)."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from anaphora.sim.references import FIRST, Ints, References

Floats = npt.NDArray[np.float64]


def working_set(references: References, times: Floats, window: float, at: Floats) -> Ints:
    """How many different blocks were used in the ``window`` up to and including each moment of ``at``.

    ``times``: when each request came, never falling. A block counts from a use on until it is used again, which counts
    it anew, or until the window has passed.
    """
    used = times[references.requests]
    end = used + window
    reuses = np.flatnonzero(references.previous != FIRST)
    before = references.previous[reuses]
    end[before] = np.minimum(end[before], used[reuses])
    end.sort()
    return np.searchsorted(used, at, side="right") - np.searchsorted(end, at, side="right")


def distinct_so_far(references: References, times: Floats, at: Floats) -> Ints:
    """How many different blocks were used from the beginning up to each moment."""
    firsts = times[references.requests[references.previous == FIRST]]
    return np.searchsorted(firsts, at, side="right").astype(np.int64)


def times_to_reuse(references: References, times: Floats) -> Floats:
    """For each use that is not a block's first, how long before the block was used last."""
    reuses = np.flatnonzero(references.previous != FIRST)
    earlier = references.requests[references.previous[reuses]]
    later: Floats = times[references.requests[reuses]]
    return later - times[earlier]


def clock_of(arrivals_s: Sequence[float | None]) -> Floats | None:
    """Seconds since the first request; ``None`` if the trace does not tell all of them, or all are the same."""
    if any(arrival is None for arrival in arrivals_s):
        return None
    times = np.array(arrivals_s, np.float64)
    times -= times.min()
    return np.maximum.accumulate(times) if times.max() > 0 else None

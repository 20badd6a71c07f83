"""When requests of an open loop are due: a seeded Poisson process, or the times of a trace."""

import itertools
import random
from collections.abc import Sequence

from anaphora.errors import TraceError
from anaphora.traces.request import Trace


def poisson(rate_per_s: float, duration_s: float, *, seed: str) -> list[float]:
    """Seconds from the beginning at which requests are due; the same seed gives the same times."""
    rng = random.Random(seed)
    times: list[float] = []
    now_s = rng.expovariate(rate_per_s)
    while now_s < duration_s:
        times.append(now_s)
        now_s += rng.expovariate(rate_per_s)
    return times


def of_trace(trace: Trace, *, speed: float, jitter_s: float, seed: str) -> list[tuple[float, int]]:
    """When each request of a trace is due, in seconds from its first one, with its place in the trace; in order.

    ``speed`` 2 replays in half the time. ``jitter_s`` spreads each request evenly over as many of the trace's own
    seconds: some traces have their times on a coarse grid, and a literal replay would make bursts that never were.

    Raises:
        TraceError: the trace does not tell its times.
    """
    times = [request.arrival_s for request in trace.requests]
    known = [time for time in times if time is not None]
    if len(known) < len(times):
        raise TraceError(
            f"{trace.path} does not tell when {len(times) - len(known)} of its {len(times)} requests came: "
            "it cannot be replayed in time"
        )
    rng = random.Random(seed)
    shifted = [(time - known[0] + rng.uniform(0, jitter_s), place) for place, time in enumerate(known)]
    return [(time / speed, place) for time, place in sorted(shifted)]


def deal(schedule: Sequence[tuple[float, int]], num_hands: int) -> list[list[tuple[float, int]]]:
    """The schedule dealt out in turn to so many senders; each hand keeps its order."""
    return [list(itertools.islice(schedule, hand, None, num_hands)) for hand in range(num_hands)]

"""A cold first wave: requests that paid for the start of a server, at the beginning of what is measured.

They are pointed at, and stay in the statistics: whether a start belongs to what was asked is for the reader to say.
"""

from collections.abc import Sequence

from anaphora.lab.statistics import median

_TIMES_AS_LONG = 4.0
_LEAST_OTHERS = 5


def num_cold(times: Sequence[float]) -> int:
    """How many of the first times, in the order of sending, are over four times the median of those after them; 0 if
    these are too few to tell."""
    cold = 0
    while len(times) - cold - 1 >= _LEAST_OTHERS:
        usual = median(times[cold + 1 :]) or 0.0
        if times[cold] <= _TIMES_AS_LONG * usual:
            break
        cold += 1
    return cold

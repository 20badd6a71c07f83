"""Was it a hit? By the count that the server tells or, where it tells none, by the time, if that can tell at all."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import special

from anaphora.lab.probe.asking import Asked

MAX_ERROR = 0.01
"""A single answer's time may be judged wrongly so often at most, or times are not judged."""
LEAST_ERROR = 1e-6
"""No statistics of some dozen times is surer than this."""
_LEVEL = 0.95


class Judge(Protocol):
    """Tells hits from misses, for prompts of one length."""

    @property
    def error_chance(self) -> float:
        """How likely one verdict is wrong; 0 where it rests on a count."""
        ...

    def is_hit(self, asked: Asked) -> bool | None:
        """Whether most of the prompt came from the cache; ``None``: this answer does not tell."""
        ...


@dataclass(frozen=True, slots=True)
class CountJudge:
    """By told counts. ``num_always_cached``: what hits in every prompt, the chat template's opening."""

    num_always_cached: int
    error_chance: float = 0.0

    def is_hit(self, asked: Asked) -> bool | None:
        if asked.num_cached_tokens is None:
            return None
        own = (asked.num_prompt_tokens or asked.num_words) - self.num_always_cached
        return asked.num_cached_tokens - self.num_always_cached > own / 2


@dataclass(frozen=True, slots=True)
class TimeJudge:
    """By whether an answer took longer or shorter than ``limit_ms``, which lies between new and repeated prompts."""

    limit_ms: float
    error_chance: float

    def is_hit(self, asked: Asked) -> bool | None:
        return asked.e2e_ms < self.limit_ms


def time_judge(new_ms: Sequence[float], repeated_ms: Sequence[float]) -> TimeJudge | None:
    """A judge of times, if these samples show that times can be judged: ``None`` if the two sorts are not clearly
    apart.

    The logarithms are taken for normal with one spread, whose upper 95 % limit is reckoned with; the limit lies
    half-way. An answer is then on the wrong side with chance ``error_chance``, which must not exceed
    :data:`MAX_ERROR`.
    """
    new, repeated = np.log(new_ms), np.log(repeated_ms)
    degrees = len(new) + len(repeated) - 2
    if degrees < 2:
        return None
    squares = float(((new - new.mean()) ** 2).sum() + ((repeated - repeated.mean()) ** 2).sum())
    spread = (squares / float(special.chdtri(degrees, _LEVEL))) ** 0.5
    apart = float(new.mean() - repeated.mean())
    if apart <= 0 or new.min() <= repeated.max():
        return None
    error = max(LEAST_ERROR, float(special.ndtr(-apart / (2 * spread)))) if spread > 0 else LEAST_ERROR
    middle = float(np.exp((new.mean() + repeated.mean()) / 2))
    return TimeJudge(middle, error) if error <= MAX_ERROR else None

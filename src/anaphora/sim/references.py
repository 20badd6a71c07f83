"""A trace as one row of block uses, in the order in which an LRU cache sees them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.signedinteger[Any]]
FIRST = -1
"""In place of the previous use: there was none."""


@dataclass(frozen=True)
class References:
    """Request after request, and of each request the last block first: so blocks are given up, tail first.

    A beginning is thus always used later than what continues it, and of two blocks the one whose last use lies further
    back is the one that LRU evicts first. All arrays have one entry a use, of 32 bits: there may be millions.
    """

    blocks: Ints
    """Which prefix is used, numbered from 0."""
    requests: Ints
    """By which request, numbered from 0."""
    depths: Ints
    """How many blocks of the request come before it."""
    starts: Ints
    """Where in the row the request's uses begin."""

    @classmethod
    def of(cls, paths: Sequence[Sequence[int]]) -> "References":
        """``paths``: for each request its prefixes, the shortest first (:func:`anaphora.sim.prefix_paths.paths_of`)."""
        lengths = np.fromiter(map(len, paths), np.int32, len(paths))
        ends = np.cumsum(lengths, dtype=np.int32)
        requests = np.repeat(np.arange(len(paths), dtype=np.int32), lengths)
        starts = np.repeat(ends - lengths, lengths)
        places = np.arange(len(requests), dtype=np.int32)
        depths = np.repeat(ends, lengths) - places - 1
        forward = np.fromiter(chain.from_iterable(paths), np.int32, len(requests))
        return cls(forward[starts + depths], requests, depths, starts)

    @cached_property
    def previous(self) -> Ints:
        """Where in the row the same block was used before, or :data:`FIRST`."""
        order = np.argsort(self.blocks, kind="stable")
        repeats = self.blocks[order[1:]] == self.blocks[order[:-1]]
        previous = np.full(len(order), FIRST, np.int32)
        previous[order[1:][repeats]] = order[:-1][repeats]
        return previous

    def __len__(self) -> int:
        return len(self.blocks)

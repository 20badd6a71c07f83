"""LRU's hit rate at every capacity, from reuse distances alone."""

from collections.abc import Sequence

import numpy as np

from anaphora.sim.prompt_blocks import PromptBlocks
from anaphora.sim.references import FIRST, Ints, References
from anaphora.sim.reuse_distance import reuse_distances


class LRUCurve:
    """What an LRU cache of a capacity serves, in tokens or blocks: all uses whose reuse distance is less than it.

    It is what a replay counts, as both evict the same block: of the blocks that nobody holds, the one given up longest
    ago never has a continuation that is cached, for that would have been given up before it. Two things differ.

    By the engine's rule, a request holds one block more while it runs, for its partial last block or for the copy of
    the last one that it computes again. So a replay with C blocks serves at least what the curve says of C − 1 and at
    most what it says of C (less, if known answers repeat what is cached: that they do is seen when they are computed).
    By the trace rule, all blocks are in the cache, and both are equal.
    """

    def __init__(self, references: References, worth: Ints) -> None:
        """``worth``: what a hit of each use counts."""
        self.references = references
        distances = reuse_distances(references)
        order = np.argsort(distances, kind="stable")[np.count_nonzero(distances == FIRST) :]
        self.distances = distances[order]
        """Of all reuses, the shortest first."""
        self._worth = worth[order]
        self._totals = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._worth)])
        self._requests, self._depths = references.requests[order], references.depths[order]
        self._num_requests = int(references.requests[-1]) + 1 if len(references) else 0

    def num_hits(self, num_blocks: int | None) -> int:
        """What is served from a cache of so many blocks; ``None``: without bounds."""
        return int(self._totals[self._end(num_blocks)])

    def hits_by_request(self, num_blocks: int | None) -> Ints:
        """The same for each request up to the last that uses any block."""
        end = self._end(num_blocks)
        counts = np.bincount(self._requests[:end], self._worth[:end], self._num_requests)
        return counts.astype(np.int64)

    def num_hits_deeper_than(self, num_blocks: int) -> int:
        """What is reused, but behind more of its prompt than a cache of so many blocks can hold."""
        return int(self._worth[self._depths >= num_blocks].sum())

    def depth_of(self, share: float) -> int:
        """How many blocks of its prompt stand before the deepest of that share of all reuses."""
        order = np.argsort(self._depths, kind="stable")
        totals = np.cumsum(self._worth[order])
        return int(self._depths[order][np.searchsorted(totals, share * totals[-1], side="left")])

    def least_capacity(self, share: float) -> int:
        """The smallest number of blocks, at least 1, with which that share of all reuses is served."""
        place = int(np.searchsorted(self._totals, share * self._totals[-1], side="left"))
        return int(self.distances[place - 1]) + 1 if place else 1

    def _end(self, num_blocks: int | None) -> int:
        """How many of the sorted uses hit."""
        if num_blocks is None:
            return len(self.distances)
        return int(np.searchsorted(self.distances, num_blocks, side="left"))


def engine_curve(prompts: Sequence[PromptBlocks], computed_paths: Sequence[Sequence[int]]) -> LRUCurve:
    """By the engine's rule: full blocks of the prompt, of which the last one is of no use if it ends the prompt."""
    references = full_block_references(prompts, computed_paths)
    limits = np.array([prompt.num_reusable_blocks if prompt.lookup else 0 for prompt in prompts], np.int64)
    reusable = references.depths < limits[references.requests]
    return LRUCurve(references, np.where(reusable, prompts[0].block_size, 0))


def trace_rule_curve(prompts: Sequence[PromptBlocks], paths: Sequence[Sequence[int]]) -> LRUCurve:
    """As published figures count: partial last blocks and wholly cached prompts are hits."""
    references = References.of(paths)
    lengths = np.array([prompt.num_tokens for prompt in prompts], np.int64)
    block_size = prompts[0].block_size
    rest = lengths[references.requests] - references.depths * block_size
    return LRUCurve(references, np.minimum(rest, block_size))


def trace_rule_block_curve(prompts: Sequence[PromptBlocks], paths: Sequence[Sequence[int]]) -> LRUCurve:
    """The same in blocks."""
    references = References.of(paths)
    return LRUCurve(references, np.ones(len(references), np.int64))


def full_block_references(prompts: Sequence[PromptBlocks], computed_paths: Sequence[Sequence[int]]) -> References:
    """The blocks that an engine caches, those of known answers too."""
    pairs = zip(prompts, computed_paths, strict=True)
    return References.of([path[: prompt.num_full_computed_blocks] for prompt, path in pairs])

"""Planning attention on CUDA: a step's requests become tasks, each a tile of queries and a range of keys.

    request a   [shared by a, b, c ........][own ..........]      tasks: shared x queries of a, b and c
    request b   [shared by a, b, c ........][b, c ...][own]              b, c   x queries of b and c
    request c   [shared by a, b, c ........][b, c ...][own ....]         own    x queries of each, cut into splits

Only numpy and integers: the plan is made while the GPU runs the step before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from anaphora.models.attention.sharing import SharedRun
from anaphora.models.attention.splits import count_splits
from anaphora.models.attention.tiles import TileConfig
from anaphora.models.batch import SequenceSpan

IntArray = npt.NDArray[np.int32]
LongArray = npt.NDArray[np.int64]
TASK_WORDS = 8
"""Words of a task: its first query row, a token of the flat batch having as many as query heads share a KV head, or
``-1 - row`` if its tokens are listed, ``row`` counting those of the list; number of rows; first key; end of keys; where
block 0 of its request would stand in the array of work; how many parts its queries have before it; end of the keys that
its first query sees, the next token seeing one more; one is spare."""


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """What the kernels are told about a step of ``T`` tokens, as int32 arrays."""

    config: TileConfig
    num_tasks: int
    work: IntArray
    """Tasks, ``TASK_WORDS`` each, and behind them pieces of block tables: one array, so that one copy brings both."""
    tokens: IntArray
    """Rows of the flat batch: the queries of shared runs, which may be of requests far apart."""
    part_start: IntArray
    """``[T + 1]``: where each query's parts begin. A query with a single task has none: it needs no joining."""
    beside: Any = None
    """What else must be attended to, which no graph can hold: the back end's own affair. None if nothing is left."""
    margin: int = 0
    """Rows around the queries that are read for nothing there: with them no queries have to be copied."""

    @classmethod
    def of_nothing(cls, config: TileConfig, num_tokens: int) -> "TaskPlan":
        """Nobody attends to anything."""
        nothing = np.empty(0, dtype=np.int32)
        return cls(config, 0, nothing, nothing, np.zeros(num_tokens + 1, dtype=np.int32))

    @property
    def num_parts(self) -> int:
        """Rows of the workspace that the parts take."""
        return int(self.part_start[-1])


FIRST, COUNT, START, END, TABLE, SEEN_BY_FIRST, OWNER = range(7)
"""Rows of an array of segments, queries and keys to be cut into tasks: first query row and number of rows as in a task;
keys ``[start, end)``; table as in a task; end of the keys that the first query sees; and a request that has these
queries: the parts before the segment are the parts it has so far."""


class TaskBuilder:
    """Collects the segments of a step: the shared runs first, parents before children, then every request's own.

    All in arrays: with 64 requests, what is done for each of them in Python is what a step's planning takes.
    """

    def __init__(
        self, spans: Sequence[SequenceSpan], block_size: int, config: TileConfig, *, group: int, num_tokens: int
    ) -> None:
        """``group``: query heads that share a KV head. ``num_tokens``: of the flat batch, which may hold others too."""
        self._spans = spans
        lengths = [(span.query_start, span.query_len, span.kv_len) for span in spans]
        self._query_start, self._query_len, self._kv_len = np.array(lengths, dtype=np.int64).reshape(-1, 3).T
        self._block_size = block_size
        self._config = config
        self._group = group
        self._tokens_per_tile = config.rows // group
        self._num_tokens = num_tokens
        self._tokens: list[LongArray] = [np.empty(0, dtype=np.int64)]
        self._num_listed = 0
        self._blocks: list[IntArray] = []
        self._num_blocks = 0
        self._runs: list[tuple[list[int], int]] = []
        """Members of a shared run, and the number of its segments."""
        self._segments: list[LongArray] = []

    def add(self, runs: Sequence[SharedRun]) -> None:
        """Make all segments, reading the blocks of ``runs`` once for all their members."""
        num_shared = np.zeros(len(self._spans), dtype=np.int64)
        for run in runs:
            members, segments = list(run.members), self._shared_segments(run)
            self._runs.append((members, segments.shape[1]))
            self._segments.append(segments)
            num_shared[members] = run.end
        self._segments.append(self._own_segments(num_shared))

    def build(self, num_kv_heads: int, num_programs: int) -> TaskPlan:
        """Cut the segments into tasks and number the parts of every query."""
        segments = np.concatenate(self._segments, axis=1)
        lengths = segments[END] - segments[START]
        num_parts = count_splits(lengths, segments[COUNT], self._config, num_kv_heads, num_programs)
        num_before = self._num_parts_before(segments[OWNER], num_parts)
        tasks = _cut(segments, num_parts, num_before, self._config)
        if self._config.programs_per_sm == 2:
            tasks = tasks[_one_long_one_short(len(tasks), num_programs // num_kv_heads)]
        return TaskPlan(
            self._config,
            len(tasks),
            np.concatenate([tasks.ravel(), *self._blocks]),
            np.concatenate(self._tokens).astype(np.int32),
            self._part_starts(segments, num_before + num_parts),
        )

    def _shared_segments(self, run: SharedRun) -> LongArray:
        """Of one shared run: tiles of its members' queries, which are listed, as they may be far apart.

        Tiles are full but for the last: a token's heads may be in two of them. 64 tokens of 7 heads are 7 tiles of 64
        rows, not 8 with a token alone in the last.
        """
        members = list(run.members)
        lengths = self._query_len[members]
        tokens = self._query_start[members].repeat(lengths) + _ordinals(lengths)
        self._tokens.append(tokens)
        num_rows = len(tokens) * self._group
        first = np.arange(0, num_rows, self._config.rows)
        segments = np.empty((7, len(first)), dtype=np.int64)
        segments[FIRST] = -1 - self._num_listed * self._group - first
        segments[COUNT] = np.minimum(self._config.rows, num_rows - first)
        segments[START] = run.start * self._block_size
        segments[END] = segments[SEEN_BY_FIRST] = run.end * self._block_size
        segments[TABLE] = self._list_blocks(members[:1], np.array([run.start]), np.array([run.end]))
        segments[OWNER] = members[0]
        self._num_listed += len(tokens)
        return segments

    def _own_segments(self, num_shared: LongArray) -> LongArray:
        """Tiles of every request's queries, and its keys after the ``num_shared`` blocks that are read with others."""
        tables = self._list_blocks(range(len(self._spans)), num_shared, -(-self._kv_len // self._block_size))
        num_tiles = -(-self._query_len // self._tokens_per_tile)
        owner = np.arange(len(self._spans)).repeat(num_tiles)
        first = _ordinals(num_tiles) * self._tokens_per_tile
        query_len = self._query_len[owner]
        segments = np.empty((7, len(owner)), dtype=np.int64)
        count = np.minimum(self._tokens_per_tile, query_len - first)
        segments[FIRST] = (self._query_start[owner] + first) * self._group
        segments[COUNT] = count * self._group
        segments[START] = num_shared[owner] * self._block_size
        segments[SEEN_BY_FIRST] = seen = self._kv_len[owner] - query_len + first + 1
        segments[END] = seen + count - 1
        segments[TABLE] = tables[owner]
        segments[OWNER] = owner
        return segments

    def _list_blocks(self, members: Sequence[int], first: LongArray, end: LongArray) -> LongArray:
        """Append blocks ``[first, end)`` of requests' tables. Returns where the block 0 of each would stand."""
        cuts = zip(members, first.tolist(), end.tolist(), strict=True)
        self._blocks += [
            np.asarray(self._spans[member].block_table[start:stop], dtype=np.int32) for member, start, stop in cuts
        ]
        ends = self._num_blocks + (end - first).cumsum()
        self._num_blocks = int(ends[-1]) if len(ends) else self._num_blocks
        places: LongArray = ends - end
        return places

    def _num_parts_before(self, owner: LongArray, num_parts: LongArray) -> LongArray:
        """How many parts the queries of each segment have before it."""
        so_far = np.zeros(len(self._spans), dtype=np.int64)
        before = np.empty_like(num_parts)
        done = 0
        for members, num_segments in self._runs:  # the segments of a run are of the same length, so of as many parts
            before[done : done + num_segments] = so_far[members[0]]
            so_far[members] += num_parts[done]
            done += num_segments
        before[done:] = so_far[owner[done:]]
        return before

    def _part_starts(self, segments: LongArray, num_parts: LongArray) -> IntArray:
        """``num_parts``: those of each segment and before it, which for the requests' own are all."""
        own = sum(num_segments for _, num_segments in self._runs)
        first, count = segments[[FIRST, COUNT], own:] // self._group
        num_parts_of = np.zeros(self._num_tokens, dtype=np.int64)
        num_parts_of[first.repeat(count) + _ordinals(count)] = num_parts[own:].repeat(count)
        num_parts_of[num_parts_of == 1] = 0
        starts = np.zeros(self._num_tokens + 1, dtype=np.int32)
        num_parts_of.cumsum(out=starts[1:])
        return starts


def _cut(segments: LongArray, num_parts: LongArray, num_before: LongArray, config: TileConfig) -> IntArray:
    """Tasks of whole tiles of keys, as equal as can be, ``[N, TASK_WORDS]``, the longest first: none is left alone at
    the end."""
    of = np.arange(len(num_parts)).repeat(num_parts)
    nth, count, picked = _ordinals(num_parts), num_parts[of], segments[:, of]
    if config.fixed_split:
        ends_before, ends = nth * config.fixed_split, (nth + 1) * config.fixed_split
    else:
        num_tiles = -(-(picked[END] - picked[START]) // config.columns)
        ends_before, ends = (config.columns * (number * num_tiles // count) for number in (nth, nth + 1))
    start = picked[START] + ends_before
    end = np.minimum(picked[START] + ends, picked[END])
    tasks = np.empty((len(of), TASK_WORDS), dtype=np.int32)
    tasks[:, 0:2] = picked[FIRST : COUNT + 1].T
    tasks[:, 2], tasks[:, 3] = start, end
    tasks[:, 4] = picked[TABLE] + tasks.size  # block tables stand behind the tasks
    tasks[:, 5] = num_before[of] + nth
    tasks[:, 6], tasks[:, 7] = picked[SEEN_BY_FIRST], 0
    longest_first: IntArray = tasks[(start - end).argsort(kind="stable")]
    return longest_first


def _one_long_one_short(num_tasks: int, num_places: int) -> LongArray:
    """An order of tasks of which the longest stand first: every second program does its own in the reverse order.

    ``num_places`` tasks are begun at once; a multiprocessor gets one from each half of them. Two long tasks there would
    wait for each other's memory and tensor cores, and two short ones for their own latency.
    """
    task = np.arange(num_tasks)
    place, nth = task % num_places, task // num_places
    num_rounds = (num_tasks - place + num_places - 1) // num_places
    order: LongArray = np.where(place < num_places // 2, task, place + (num_rounds - 1 - nth) * num_places)
    return order


def _ordinals(counts: LongArray) -> LongArray:
    """``0, 1, ..., count - 1`` for every count, one after another."""
    ends = counts.cumsum()
    ordinals: LongArray = np.arange(ends[-1] if len(ends) else 0) - (ends - counts).repeat(counts)
    return ordinals

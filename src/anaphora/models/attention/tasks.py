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
from anaphora.models.attention.splits import split_keys
from anaphora.models.attention.tiles import TileConfig
from anaphora.models.batch import SequenceSpan

IntArray = npt.NDArray[np.int32]
TASK_WORDS = 8
"""Words of a task: first row of its queries in the flat batch, or ``-1 - place`` if they are listed from ``place`` on;
their number; first key; end of keys; where block 0 of its request would stand in the array of work; how many parts its
queries have before it; end of the keys that its first query sees, the next seeing one more; one is spare."""


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

    @property
    def num_parts(self) -> int:
        """Rows of the workspace that the parts take."""
        return int(self.part_start[-1])


@dataclass(frozen=True, slots=True)
class _Segment:
    """``count`` queries, ``first`` as in a task, and keys ``[start, end)``, to be cut into tasks."""

    first: int
    count: int
    start: int
    end: int
    table: int
    seen_by_first: int
    """End of the keys that the first query sees."""
    owner: int
    """A request that has these queries: the parts before this segment are the parts it has so far."""


class TaskBuilder:
    """Collects the segments of a step: the shared runs first, parents before children, then every request's own."""

    def __init__(
        self, spans: Sequence[SequenceSpan], block_size: int, config: TileConfig, *, group: int, num_tokens: int
    ) -> None:
        """``group``: query heads that share a KV head. ``num_tokens``: of the flat batch, which may hold others too."""
        self._spans = spans
        self._block_size = block_size
        self._config = config
        self._group = group
        self._tokens_per_tile = config.rows // group
        self._num_tokens = num_tokens
        self._tokens: list[IntArray] = [np.empty(0, dtype=np.int32)]
        self._num_listed = 0
        self._blocks: list[IntArray] = []
        self._num_blocks = 0
        self._runs: list[tuple[SharedRun, list[_Segment]]] = []
        self._own: list[_Segment] = []

    def add(self, runs: Sequence[SharedRun]) -> None:
        """Make all segments, reading the blocks of ``runs`` once for all their members."""
        shared = [0] * len(self._spans)
        for run in runs:
            self._runs.append((run, self._shared_segments(run)))
            for member in run.members:
                shared[member] = run.end
        for index, span in enumerate(self._spans):
            table = self._list_blocks(span, shared[index], -(-span.kv_len // self._block_size))
            start, first_position = shared[index] * self._block_size, span.kv_len - span.query_len
            for first in range(0, span.query_len, self._tokens_per_tile):
                count = min(self._tokens_per_tile, span.query_len - first)
                end = first_position + first + count
                self._own.append(_Segment(span.query_start + first, count, start, end, table, end - count + 1, index))

    def build(self, num_kv_heads: int, num_programs: int) -> TaskPlan:
        """Cut the segments into tasks and number the parts of every query."""
        segments = [segment for _, group in self._runs for segment in group] + self._own
        lengths = np.array([segment.end - segment.start for segment in segments], dtype=np.int64)
        num_rows = np.array([segment.count for segment in segments], dtype=np.int64) * self._group
        pieces = split_keys(lengths, num_rows, self._config, num_kv_heads, num_programs)
        before = [0] * len(self._spans)
        cuts = iter(pieces)
        tasks: list[tuple[int, ...]] = []
        for run, group in self._runs:
            for segment in group:  # of the same length, so with the same number of parts
                num_parts = self._cut(segment, next(cuts), before[segment.owner], tasks)
            for member in run.members:
                before[member] += num_parts
        num_parts_of = np.zeros(self._num_tokens, dtype=np.int32)
        for segment in self._own:
            num_parts = before[segment.owner] + self._cut(segment, next(cuts), before[segment.owner], tasks)
            num_parts_of[segment.first : segment.first + segment.count] = num_parts
        num_parts_of[num_parts_of == 1] = 0
        tasks.sort(key=lambda task: task[2] - task[3])  # the longest first: none is left alone at the end
        table = np.array(tasks, dtype=np.int32).reshape(-1, TASK_WORDS)
        table[:, 4] += table.size
        return TaskPlan(
            self._config,
            len(tasks),
            np.concatenate([table.ravel(), *self._blocks]),
            np.concatenate(self._tokens),
            np.concatenate([[0], np.cumsum(num_parts_of)]).astype(np.int32),
        )

    def _shared_segments(self, run: SharedRun) -> list[_Segment]:
        spans = [self._spans[member] for member in run.members]
        rows = np.concatenate([np.arange(s.query_start, s.query_start + s.query_len, dtype=np.int32) for s in spans])
        table = self._list_blocks(spans[0], run.start, run.end)
        place, self._num_listed = self._num_listed, self._num_listed + len(rows)
        self._tokens.append(rows)
        start, end, size = run.start * self._block_size, run.end * self._block_size, self._tokens_per_tile
        return [
            _Segment(-1 - place - first, min(size, len(rows) - first), start, end, table, end, run.members[0])
            for first in range(0, len(rows), size)
        ]

    def _list_blocks(self, span: SequenceSpan, first: int, end: int) -> int:
        """Append blocks ``[first, end)`` of a request's table. Returns where its block 0 would stand."""
        place, self._num_blocks = self._num_blocks - first, self._num_blocks + end - first
        self._blocks.append(np.asarray(span.block_table[first:end], dtype=np.int32))
        return place

    @staticmethod
    def _cut(segment: _Segment, piece: int, before: int, tasks: list[tuple[int, ...]]) -> int:
        """Append the segment as tasks of ``piece`` keys, cut at multiples of it. Returns their number."""
        starts = range(segment.start, segment.end, piece)
        for ordinal, start in enumerate(starts, before):
            end = min(start + piece, segment.end)
            tasks.append((segment.first, segment.count, start, end, segment.table, ordinal, segment.seen_by_first, 0))
        return len(starts)

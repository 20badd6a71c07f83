"""Which shared leading blocks are worth reading once for all, on CUDA: found with numpy, judged by a cost rule."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anaphora.models.attention.sharing import SharedRun
from anaphora.models.batch import SequenceSpan

IntArray = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingCost:
    """When a shared run pays, in keys: those no longer read, against what one more part costs every query."""

    per_run: int
    """Keys that could be read while one more group of tasks is begun."""
    per_query: int
    """Keys that could be read while a query's part is stored and joined."""
    max_query_len: int
    """Of a request with more new tokens, the reading of keys is not what costs."""


def find_shared_runs(spans: Sequence[SequenceSpan], block_size: int, cost: SharingCost) -> list[SharedRun]:
    """Runs that pay, parents before their children: see :func:`anaphora.models.attention.sharing.shared_runs`.

    Only blocks that all queries of a request see in full are shared.
    """
    lengths = [_num_sharable(span, block_size, cost.max_query_len) for span in spans]
    members = [index for index, length in enumerate(lengths) if length]
    if len(members) < 2:
        return []
    tables = np.full((len(spans), sorted(lengths)[-2]), -1, dtype=np.int32)  # the longest shares no more than the next
    for index in members:
        length = lengths[index] = min(lengths[index], tables.shape[1])
        tables[index, :length] = spans[index].block_table[:length]
    step = _Step(tables, lengths, [span.query_len for span in spans], block_size, cost)
    return list(_runs(step, members, 0, 0))


@dataclass(frozen=True, slots=True)
class _Step:
    """What is looked at."""

    tables: IntArray
    """``[requests, blocks]``, each filled up with -1."""
    lengths: Sequence[int]
    """Blocks of each that may be shared."""
    num_queries: Sequence[int]
    block_size: int
    cost: SharingCost


def _num_sharable(span: SequenceSpan, block_size: int, max_query_len: int) -> int:
    """Blocks that all queries of the request see in full."""
    return 0 if span.query_len > max_query_len else (span.kv_len - span.query_len) // block_size


def _runs(step: _Step, members: Sequence[int], start: int, depth: int) -> Iterator[SharedRun]:
    """Runs of ``members``, whose tables are the same up to ``depth`` and dealt with up to ``start``."""
    by_next: dict[int, list[int]] = {}
    longer = [member for member in members if step.lengths[member] > depth]
    if len(longer) < 2:
        return
    for member, block in zip(longer, step.tables[longer, depth].tolist(), strict=True):
        by_next.setdefault(block, []).append(member)
    for group in by_next.values():
        if len(group) == 1:
            continue
        end = _common(step, group, depth)
        price = step.cost.per_run + step.cost.per_query * sum(step.num_queries[member] for member in group)
        pays = (len(group) - 1) * (end - start) * step.block_size >= price
        if pays:
            yield SharedRun(tuple(group), start, end)
        yield from _runs(step, group, end if pays else start, end)


def _common(step: _Step, group: Sequence[int], depth: int) -> int:
    """How many blocks all of ``group`` begin with in common; at least ``depth + 1`` are known to be equal."""
    length = min(step.lengths[member] for member in group)
    differs = (step.tables[group, depth:length] != step.tables[group[0], depth:length]).any(axis=0)
    place = int(differs.argmax())
    return depth + place if differs[place] else length

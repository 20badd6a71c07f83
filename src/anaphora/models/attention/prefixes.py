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
    tables = [_sharable(span, block_size, cost.max_query_len) for span in spans]
    members = [index for index, table in enumerate(tables) if len(table)]
    if len(members) < 2:
        return []
    num_queries = [span.query_len for span in spans]
    return list(_runs(tables, num_queries, members, 0, 0, block_size, cost))


def _sharable(span: SequenceSpan, block_size: int, max_query_len: int) -> IntArray:
    seen_by_all = 0 if span.query_len > max_query_len else (span.kv_len - span.query_len) // block_size
    return np.asarray(span.block_table[:seen_by_all], dtype=np.int32)


def _runs(
    tables: Sequence[IntArray],
    num_queries: Sequence[int],
    members: Sequence[int],
    start: int,
    depth: int,
    block_size: int,
    cost: SharingCost,
) -> Iterator[SharedRun]:
    """Runs of ``members``, whose tables are the same up to ``depth`` and dealt with up to ``start``."""
    by_next: dict[int, list[int]] = {}
    for member in members:
        if len(tables[member]) > depth:
            by_next.setdefault(int(tables[member][depth]), []).append(member)
    for group in by_next.values():
        if len(group) == 1:
            continue
        first = tables[group[0]]
        end = min(_common(first, tables[member], depth) for member in group[1:])
        price = cost.per_run + cost.per_query * sum(num_queries[member] for member in group)
        pays = (len(group) - 1) * (end - start) * block_size >= price
        if pays:
            yield SharedRun(tuple(group), start, end)
        yield from _runs(tables, num_queries, group, end if pays else start, end, block_size, cost)


def _common(one: IntArray, other: IntArray, depth: int) -> int:
    """The length of the beginning that both have; at least the first ``depth + 1`` entries are known to be equal."""
    length = min(len(one), len(other))
    differs = one[depth:length] != other[depth:length]
    place = int(differs.argmax())
    return depth + place if differs[place] else length

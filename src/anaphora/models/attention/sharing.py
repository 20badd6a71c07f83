"""Which requests of a step have the same leading blocks, so that one reading of those blocks serves all of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile


@dataclass(frozen=True, slots=True)
class SharedRun:
    """Blocks ``[start, end)`` are the same in the block tables of all ``members`` (two or more, ascending)."""

    members: tuple[int, ...]
    start: int
    end: int


def shared_runs(block_tables: Sequence[Sequence[int]], min_saved_blocks: int) -> list[SharedRun]:
    """Leading blocks to read once for several requests, where that saves at least so many readings of a block.

    A group may share a run and a part of it a further one; each request's runs follow each other from its block 0 on.

    >>> shared_runs([[1, 2, 3], [1, 2, 3, 4], [5]], min_saved_blocks=3)
    [SharedRun(members=(0, 1), start=0, end=3)]
    """
    return list(_shared(block_tables, range(len(block_tables)), 0, 0, min_saved_blocks))


def _shared(
    block_tables: Sequence[Sequence[int]], members: Sequence[int], start: int, depth: int, min_saved_blocks: int
) -> Iterator[SharedRun]:
    """Runs of ``members``, whose tables are the same up to ``depth`` and dealt with up to ``start``."""
    by_next: dict[int, list[int]] = {}
    for member in members:
        if len(block_tables[member]) > depth:
            by_next.setdefault(block_tables[member][depth], []).append(member)
    for group in by_next.values():
        if len(group) == 1:
            continue
        columns = zip(*(block_tables[member][depth:] for member in group), strict=False)
        end = depth + sum(1 for _ in takewhile(lambda column: column.count(column[0]) == len(column), columns))
        pays = (len(group) - 1) * (end - start) >= min_saved_blocks
        if pays:
            yield SharedRun(tuple(group), start, end)
        yield from _shared(block_tables, group, end if pays else start, end, min_saved_blocks)

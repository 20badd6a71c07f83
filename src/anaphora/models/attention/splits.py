"""Into how many splits the keys of a step are cut, so that the whole GPU reads and none of it waits for the last."""

import numpy as np
import numpy.typing as npt

from anaphora.models.attention.tiles import TileConfig

LengthArray = npt.NDArray[np.int64]
ROUNDS = (1, 2, 3, 4, 6, 8)
"""Tasks of each program that are aimed at; also, into how many splits the longest segment is cut."""


def split_keys(
    lengths: LengthArray, num_rows: LengthArray, config: TileConfig, num_kv_heads: int, num_programs: int
) -> list[int]:
    """Keys of a split, for each of the segments of ``lengths`` keys and ``num_rows`` query rows.

    ``num_programs`` run side by side, each doing tasks one after another. Segments of equal length are cut alike.
    """
    if config.fixed_split:
        return [config.fixed_split] * len(lengths)
    if not len(lengths):
        return []
    columns = config.columns
    longest = _candidates(lengths, columns, num_kv_heads, num_programs)
    num_splits = -(-lengths // longest[:, None])
    pieces = -(-lengths // (num_splits * columns)) * columns
    num_splits = -(-lengths // pieces)
    ends = _end(pieces, num_splits, num_rows, config, num_programs / num_kv_heads)
    best: list[int] = pieces[int(np.argmin(ends))].tolist()
    return best


def _candidates(lengths: LengthArray, columns: int, num_kv_heads: int, num_programs: int) -> LengthArray:
    """Lengths of splits worth trying, the longest first."""
    work, longest = int(lengths.sum()) * num_kv_heads, int(lengths.max())
    found = {-(-longest // columns)}
    for rounds in ROUNDS:
        even = max(1, -(-work // (rounds * num_programs * columns)))
        found |= {even, even + 1, even + 2}  # what is cut off last must not begin a round
        found.add(-(-longest // (rounds * columns)))
    return np.array(sorted(found, reverse=True)) * columns


def _end(
    pieces: LengthArray, num_splits: LengthArray, num_rows: LengthArray, config: TileConfig, num_side_by_side: float
) -> LengthArray:
    """When the last task ends, in keys read, for each candidate. Arrays ``[candidates, segments]``.

    Tasks run in rounds, the longest first, so that a round lasts as long as its first task. A task takes its keys, a
    constant and, if it is one of several, the storing and joining of its rows.
    """
    time = pieces + config.task_keys + config.row_keys * np.where(num_splits > 1, num_rows, 0)
    rows, order = np.arange(len(pieces))[:, None], (-pieces).argsort(axis=1, kind="stable")
    rounds_begun = np.ceil(num_splits[rows, order].cumsum(axis=1) / num_side_by_side)
    begins = rounds_begun.copy()
    begins[:, 1:] -= rounds_begun[:, :-1]
    ends: LengthArray = (time[rows, order] * begins).sum(1)
    return ends

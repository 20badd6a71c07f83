"""Into how many splits the keys of a step are cut, so that the whole GPU reads and none of it waits for the last."""

import numpy as np
import numpy.typing as npt

from anaphora.models.attention.tiles import TileConfig

LongArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
ROUNDS = (1, 2, 3, 4, 6, 8)
"""Tasks of each program that are aimed at; also, into how many splits the longest segment is cut."""


def count_splits(
    lengths: LongArray, num_rows: LongArray, config: TileConfig, num_kv_heads: int, num_programs: int
) -> LongArray:
    """Splits of each of the segments, which have ``lengths`` keys and ``num_rows`` query rows.

    ``num_programs`` run side by side, each doing tasks one after another. Segments of equal length are cut alike, and
    no split is smaller than a tile.
    """
    if config.fixed_split:
        fixed: LongArray = -(-lengths // config.fixed_split)
        return fixed
    if not len(lengths):
        return lengths
    longest = lengths.max()
    targets = longest / _candidates(lengths, config.columns, num_kv_heads, num_programs)
    num_tiles = -(-lengths // config.columns)
    num_splits = np.minimum(np.ceil(lengths / targets[:, None] - 1e-9).astype(np.int64), num_tiles)
    ends = _end(num_tiles, num_splits, num_rows, config, num_programs / num_kv_heads)
    best: LongArray = num_splits[int(np.argmin(ends))]
    return best


def _candidates(lengths: LongArray, columns: int, num_kv_heads: int, num_programs: int) -> LongArray:
    """Numbers of splits of the longest segment worth trying, the fewest first."""
    work, longest = int(lengths.sum()) * num_kv_heads, int(lengths.max())
    num_longest = int((lengths == longest).sum()) * num_kv_heads
    most = -(-longest // columns)
    found = {1}
    for rounds in ROUNDS:
        even = max(1, -(-work // (rounds * num_programs * columns)))
        # what is cut off last must not begin a round
        found |= {-(-longest // (tiles * columns)) for tiles in (even, even + 1, even + 2)}
        found |= {rounds, rounds * num_programs // num_longest}
    return np.array(sorted(number for number in found if 0 < number <= most))


def _end(
    num_tiles: LongArray, num_splits: LongArray, num_rows: LongArray, config: TileConfig, num_side_by_side: float
) -> FloatArray:
    """When the last task ends, in keys read, for each candidate. ``num_splits``: ``[candidates, segments]``.

    Tasks run in rounds, the longest first, so that a round lasts as long as its first task. A task takes its keys, a
    constant and, if it is one of several, the storing and joining of its rows. A segment's splits differ by a tile:
    where a multiprocessor has a single program, the longer ones count, and else the mean, as its programs share it.
    """
    tiles = num_tiles / num_splits
    if config.programs_per_sm == 1:
        tiles = np.ceil(tiles)
    time = tiles * config.columns + config.task_keys + config.row_keys * np.where(num_splits > 1, num_rows, 0)
    rows, order = np.arange(len(time))[:, None], (-time).argsort(axis=1, kind="stable")
    rounds_begun = np.ceil(num_splits[rows, order].cumsum(axis=1) / num_side_by_side)
    begins = rounds_begun.copy()
    begins[:, 1:] -= rounds_begun[:, :-1]
    ends: FloatArray = (time[rows, order] * begins).sum(1)
    return ends

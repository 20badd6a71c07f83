"""Into how many splits the keys of a step are cut, so that the whole GPU reads and none of it waits for the last."""

import numpy as np
import numpy.typing as npt

from anaphora.models.attention.tiles import TileConfig

MAX_ROUNDS = 8
"""Splits are tried up to so many tasks for each program."""


def split_keys(lengths: npt.NDArray[np.int64], config: TileConfig, num_kv_heads: int, num_programs: int) -> list[int]:
    """Keys of a split, for each of the segments of ``lengths`` keys.

    ``num_programs`` run side by side, each doing tasks one after another. Segments of equal length are cut alike.
    """
    if config.fixed_split:
        return [config.fixed_split] * len(lengths)
    if not len(lengths):
        return []
    longest = _best_split(lengths, config, num_kv_heads, num_programs)
    num_splits = -(-lengths // longest)
    pieces = -(-lengths // num_splits)
    rounded: list[int] = (-(-pieces // config.columns) * config.columns).tolist()
    return rounded


def _best_split(lengths: npt.NDArray[np.int64], config: TileConfig, num_kv_heads: int, num_programs: int) -> int:
    """The length of splits that ends first if every task takes its keys and a constant."""
    columns = config.columns
    work = int(lengths.sum()) * num_kv_heads
    candidates = {-(-int(lengths.max()) // columns) * columns}
    for rounds in range(1, MAX_ROUNDS + 1):
        even = max(columns, -(-work // (rounds * num_programs * columns)) * columns)
        candidates |= {even, even + columns, even + 2 * columns}  # what is cut off last must not begin a round
    longest = np.array(sorted(candidates, reverse=True))
    num_tasks = (-(-lengths // longest[:, None])).sum(1) * num_kv_heads
    rounds_taken = -(-num_tasks // num_programs)
    spans = np.minimum(longest, lengths.max()) + config.overhead_tokens
    return int(longest[np.argmin(rounds_taken * spans)])

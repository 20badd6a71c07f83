"""Runs: stretches of blocks that lie together in the KV tensors, so that attention can read them as one view."""

from collections.abc import Sequence


def slot_runs(block_table: Sequence[int], block_size: int, kv_len: int) -> list[tuple[int, int]]:
    """Half-open slot ranges that hold tokens ``[0, kv_len)`` in order, neighbouring blocks merged.

    >>> slot_runs([4, 5, 9], block_size=16, kv_len=40)
    [(64, 96), (144, 152)]
    """
    runs: list[tuple[int, int]] = []
    num_blocks = -(-kv_len // block_size)
    assert num_blocks <= len(block_table), (num_blocks, len(block_table))
    for index in range(num_blocks):
        start = block_table[index] * block_size
        end = start + min(block_size, kv_len - index * block_size)
        if runs and runs[-1][1] == start:
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((start, end))
    return runs

"""Reuse distances: how much else was used between two uses of a block. Exact, in O(n log n).

LRU keeps a block if and only if its reuse distance is less than the capacity (Mattson et al., "Evaluation techniques
for storage hierarchies", IBM Systems Journal 1970). So one pass gives LRU's hit rate at every capacity.
"""

import numpy as np

from anaphora.sim.references import FIRST, Ints, References


def reuse_distances(references: References) -> Ints:
    """For each use of a block, the distinct other blocks used since its last use when the request arrives;
    :data:`FIRST` if the block was not used before.

    Those are all uses in between, but for those that repeat a block used in between already. A use repeats one if its
    own previous use lies in between too, that is after this block's previous use. What the request itself uses comes
    too late to count. The block's own beginning always counts, for it was used later: it is nearer than the block.
    """
    previous = references.previous
    places = np.flatnonzero(previous != FIRST)
    before = previous[places]
    distances = np.full(len(previous), FIRST, np.int32)
    distances[places] = references.starts[places] - before - 1 - count_greater_before(before)
    return distances


def count_greater_before(values: Ints) -> Ints:
    """For each of these distinct numbers, how many greater ones stand before it.

    The numbers are sorted by their ranks' bits, the highest first, in stable passes. Before each pass those that share
    all higher bits stand together and in their first order: there, a number whose bit is 0 finds before it every
    greater one that differs from it in this bit first. (A wavelet tree, built and asked at once.)
    """
    ranks = np.empty(len(values), np.int64)
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    sorted_ranks, counts = ranks.astype(np.int32), np.zeros(len(values), np.int32)
    for bit in reversed(range(max(len(values) - 1, 0).bit_length())):
        is_one = (sorted_ranks >> bit & 1).astype(np.bool_)
        start = sorted_ranks >> (bit + 1) << (bit + 1)  # where its group begins: the ranks are 0, 1, 2, ...
        ones = np.cumsum(is_one, dtype=np.int32) - is_one
        ones -= ones[start]
        counts[~is_one] += ones[~is_one]
        there = np.where(is_one, start + (1 << bit) + ones, np.arange(len(values), dtype=np.int32) - ones)
        moved_ranks, moved_counts = np.empty_like(sorted_ranks), np.empty_like(counts)
        moved_ranks[there], moved_counts[there] = sorted_ranks, counts
        sorted_ranks, counts = moved_ranks, moved_counts
    return counts[ranks].astype(np.int64)

"""Sharing on CUDA finds what sharing on CPU finds, and is paid for by another rule."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anaphora.models.attention.prefixes import SharingCost, find_shared_runs
from anaphora.models.attention.sharing import SharedRun, shared_runs
from anaphora.models.batch import SequenceSpan

FREE = SharingCost(per_run=1, per_query=0, max_query_len=4)
TREES = st.lists(st.lists(st.integers(0, 1), max_size=8), max_size=6)


def distinct(path: list[int]) -> list[int]:
    """A table whose blocks say the way to them, so that equal blocks stand behind equal beginnings only."""
    return [int("1" + "".join(map(str, path[: depth + 1])), 2) for depth in range(len(path))]


@given(TREES)
def test_runs_are_those_of_the_generic_search(paths: list[list[int]]) -> None:
    tables = [distinct(path) for path in paths]
    spans = [SequenceSpan(row, 1, 4 * len(table) + 1, [*table, -row - 1]) for row, table in enumerate(tables)]
    assert find_shared_runs(spans, 4, FREE) == shared_runs(tables, 1)


def test_tables_may_be_arrays() -> None:
    table = np.array([5, 6, 7], dtype=np.int32)
    spans = [SequenceSpan(row, 1, 12, table) for row in range(2)]  # type: ignore[arg-type]
    assert find_shared_runs(spans, 4, FREE) == [SharedRun((0, 1), 0, 2)]  # the third block holds the query itself


def test_every_query_of_a_run_costs() -> None:
    spans = [SequenceSpan(2 * row, 2, 14, [1, 2, 3, 4 + row]) for row in range(3)]
    saved = 2 * 12  # two of three readings of three blocks
    assert find_shared_runs(spans, 4, SharingCost(per_run=saved - 6, per_query=1, max_query_len=4))
    assert not find_shared_runs(spans, 4, SharingCost(per_run=saved - 5, per_query=1, max_query_len=4))


def test_long_requests_share_nothing() -> None:
    spans = [SequenceSpan(5 * row, 5, 17, [1, 2, 3, 4 + row, 9 + row]) for row in range(2)]
    assert find_shared_runs(spans, 4, FREE) == []

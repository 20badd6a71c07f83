"""Which blocks are read once, by whom."""

from hypothesis import given
from hypothesis import strategies as st

from anaphora.models.attention.sharing import SharedRun, shared_runs


def test_nothing_in_common() -> None:
    assert shared_runs([], 1) == []
    assert shared_runs([[1, 2], [3, 2], []], 1) == []


def test_a_run_must_pay() -> None:
    tables = [[1, 2, 3], [1, 2, 4], [1, 2, 5]]
    assert shared_runs(tables, 4) == [SharedRun((0, 1, 2), 0, 2)]
    assert shared_runs(tables, 5) == []


def test_a_part_of_a_group_shares_more() -> None:
    tables = [[1, 2, 3], [1, 2, 3, 4], [1, 9], [1, 9, 9], [1]]
    assert shared_runs(tables, 1) == [
        SharedRun((0, 1, 2, 3, 4), 0, 1),
        SharedRun((0, 1), 1, 3),
        SharedRun((2, 3), 1, 2),
    ]


def test_what_did_not_pay_for_all_is_read_with_the_rest() -> None:
    assert shared_runs([[1, 2, 3], [1, 2, 3], [1]], 3) == [SharedRun((0, 1), 0, 3)]


@given(
    tables=st.lists(st.lists(st.integers(0, 2), max_size=6), max_size=8),
    min_saved_blocks=st.integers(1, 8),
)
def test_runs_of_a_request_follow_each_other(tables: list[list[int]], min_saved_blocks: int) -> None:
    covered = [0] * len(tables)
    for run in shared_runs(tables, min_saved_blocks):
        assert (len(run.members) - 1) * (run.end - run.start) >= min_saved_blocks
        assert len({tuple(tables[member][: run.end]) for member in run.members}) == 1
        for member in run.members:
            assert covered[member] == run.start < run.end <= len(tables[member])
            covered[member] = run.end

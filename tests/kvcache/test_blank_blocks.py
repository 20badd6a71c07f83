from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.kvcache.blank_blocks import BlankBlocks


def test_the_lowest_ids_come_first_in_ascending_order() -> None:
    blank = BlankBlocks(6)
    assert list(blank.take(2)) == [0, 1]
    assert list(blank.take(3)) == [2, 3, 4]
    blank.add(array("I", [4, 1, 3]))
    assert (list(blank), len(blank)) == ([1, 3, 4, 5], 4)
    assert list(blank.take(3)) == [1, 3, 4]


def test_to_take_more_than_there_is_is_a_broken_invariant() -> None:
    with pytest.raises(AssertionError):
        BlankBlocks(2).take(3)


@settings(deadline=None, derandomize=True)
@given(st.integers(1, 12), st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.randoms(use_true_random=False))))
def test_like_a_sorted_list(num_blocks: int, operations: list[tuple[bool, int, object]]) -> None:
    blank, there, taken = BlankBlocks(num_blocks), list(range(num_blocks)), list[int]()
    for is_take, count, random in operations:
        if is_take:
            count = min(count, len(there))
            assert list(blank.take(count)) == there[:count]
            taken += there[:count]
            del there[:count]
        else:
            random.shuffle(taken)  # type: ignore[attr-defined]
            blank.add(array("I", taken[:count]))
            there = sorted(there + taken[:count])
            del taken[:count]
        assert (list(blank), len(blank)) == (there, len(there))

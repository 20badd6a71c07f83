import pytest

from anaphora.kvcache.census import CensusRun
from anaphora.kvcache.token_blocks import TokenBlocks


def packed(*tokens: int) -> bytearray:
    return TokenBlocks(tokens, 1).packed


def make() -> CensusRun:
    return CensusRun(None, bytearray(), 4)


def shape(run: CensusRun) -> list[tuple[int, int, int, list[object]]]:
    """Blocks, holders, ends and children, all the way down."""
    return [(r.num_blocks, r.num_holders, r.num_ends, [*shape(r)]) for r in run.children.values()]


def test_holders_are_counted_per_prefix() -> None:
    root = make()
    first = root.enter(packed(1, 2, 3))
    assert root.enter(packed(1, 2, 3)) is first
    second = root.enter(packed(1, 5))
    assert (first.num_holders, second.num_holders) == (2, 1)
    assert shape(root) == [(1, 3, 0, [(2, 2, 2, []), (1, 1, 1, [])])]
    prompts = ((1, 2, 3, 4), (1, 5, 3), (1, 2, 9), (2, 3), ())
    assert [root.num_held(TokenBlocks(tokens, 1)) for tokens in prompts] == [3, 2, 2, 0, 0]


def test_the_end_of_a_prefix_leaves_first() -> None:
    root = make()
    root.enter(packed(1, 2, 3, 4))
    end = root.enter(packed(1, 2, 3, 4))
    kept = end.leave(3)
    assert kept.end_at(0) is kept
    assert shape(root) == [(1, 2, 1, [(3, 1, 1, [])])]
    assert end.leave(4) is root
    assert shape(root) == [(1, 1, 1, [])]


def test_a_prefix_nobody_holds_is_gone() -> None:
    root = make()
    end = root.enter(packed(1, 2))
    assert end.leave(2) is root
    assert root.children == {}


def test_the_beginning_cannot_go_before_its_continuation() -> None:
    root = make()
    first = root.enter(packed(1))
    first.enter(packed(2))
    with pytest.raises(AssertionError):
        first.leave(1)


def test_runs_with_the_same_holders_join_where_no_extent_ends_any_more() -> None:
    root = make()
    first = root.enter(packed(1, 2))
    end = first.enter(packed(3))
    first.no_end()
    assert shape(root) == [(3, 1, 1, [])]
    middle = end.end_at(1)
    assert shape(root) == [(2, 1, 1, [(1, 1, 1, [])])]
    root.enter(packed(1, 2))
    middle.no_end()
    assert shape(root) == [(2, 2, 1, [(1, 1, 1, [])])], "another extent ends there"
    middle.no_end()
    assert shape(root) == [(2, 2, 0, [(1, 1, 1, [])])], "not all go on"

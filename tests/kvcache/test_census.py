import pytest

from anaphora.kvcache.census import CensusNode


def test_holders_are_counted_per_prefix() -> None:
    root = CensusNode()
    first = root.enter(b"x")
    assert root.enter(b"x") is first
    second = first.enter(b"y")
    assert (first.num_holders, second.num_holders) == (2, 1)
    assert [root.num_held(blocks) for blocks in ([b"x", b"y", b"z"], [b"x", b"z"], [b"y"], [])] == [2, 1, 0, 0]
    assert first.num_held([b"y"]) == 1
    assert root.num_descendants() == 2


def test_a_prefix_nobody_holds_is_gone() -> None:
    root = CensusNode()
    first = root.enter(b"x")
    root.enter(b"x")
    first.leave()
    assert root.num_held([b"x"]) == 1
    first.leave()
    assert root.children == {}


def test_the_beginning_cannot_go_before_its_continuation() -> None:
    first = CensusNode().enter(b"x")
    first.enter(b"y")
    with pytest.raises(AssertionError):
        first.leave()

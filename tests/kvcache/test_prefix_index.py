from array import array

import pytest

from anaphora.kvcache.extent import Extent
from anaphora.kvcache.prefix_index import PrefixIndex
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.types import Namespace, RequestId

A, B = Namespace("a"), Namespace("b")


def blocks(*tokens: int) -> TokenBlocks:
    return TokenBlocks(tokens, 1)


def insert(index: PrefixIndex, namespace: Namespace, parent: Extent | None, *tokens: int) -> Extent:
    extent = index.insert(namespace, parent, blocks(*tokens).packed, 4)
    extent.attach(array("I", tokens))
    return extent


def walk(index: PrefixIndex, *tokens: int, namespace: Namespace = A, limit: int = 9) -> list[tuple[Extent, int]]:
    return list(index.walk(namespace, blocks(*tokens), min(limit, len(tokens))))


def test_a_walk_is_the_longest_way_from_the_beginning() -> None:
    index = PrefixIndex()
    one = insert(index, A, None, 1, 2)
    two = insert(index, A, one, 3, 4)
    other = insert(index, A, one, 7)
    assert walk(index, 1, 2, 3, 4, 5) == [(one, 2), (two, 2)]
    assert walk(index, 1, 2, 7) == [(one, 2), (other, 1)]
    assert walk(index, 1, 2, 3, 7) == [(one, 2), (two, 1)]
    assert walk(index, 1, 2, 9) == [(one, 2)]
    assert walk(index, 1, 7) == [(one, 1)]
    assert walk(index, 2, 3) == walk(index) == []


def test_a_walk_ends_at_its_limit_and_may_begin_anywhere() -> None:
    index = PrefixIndex()
    one = insert(index, A, None, 1, 2)
    two = insert(index, A, one, 3, 4, 5)
    assert walk(index, 1, 2, 3, 4, 5, limit=4) == [(one, 2), (two, 2)]
    assert walk(index, 1, 2, 3, limit=2) == [(one, 2)]
    assert list(index.walk(A, blocks(1, 2, 3, 4), 4, after=one, position=2)) == [(two, 2)]


def test_namespaces_do_not_see_each_other() -> None:
    index = PrefixIndex()
    insert(index, A, None, 1)
    assert walk(index, 1, namespace=B) == []
    assert index.child(B, None, blocks(1), 0) is None


def test_usable_is_what_is_cached_or_pending_in_the_same_step() -> None:
    extent = insert(PrefixIndex(), A, None, 1, 2)
    assert [extent.is_usable(step) for step in (7, None)] == [True, True]
    extent.owner, extent.step = RequestId("r"), 7
    assert [extent.is_usable(step) for step in (7, 8, None)] == [True, False, False]
    extent.detach()
    assert not extent.is_usable(7)


def test_a_root_goes_with_its_last_child() -> None:
    index = PrefixIndex()
    x, y = insert(index, A, None, 1), insert(index, A, None, 2)
    assert set(index) == {x, y}
    for extent in (x, y):
        extent.detach()
        index.remove(extent)
    assert (list(index), index.num_namespaces) == ([], 0)
    assert index.child(A, None, blocks(1), 0) is None


def test_an_extent_with_blocks_or_children_cannot_be_removed() -> None:
    index = PrefixIndex()
    x = insert(index, A, None, 1)
    insert(index, A, x, 2)
    with pytest.raises(AssertionError):
        index.remove(x)
    x.detach()
    with pytest.raises(AssertionError):
        index.remove(x)

import pytest

from anaphora.kvcache.block import Block
from anaphora.kvcache.prefix_index import PrefixIndex, PrefixNode
from anaphora.types import BlockId, Namespace, RequestId

A, B = Namespace("a"), Namespace("b")


def insert(index: PrefixIndex, namespace: Namespace, *blocks: bytes) -> PrefixNode:
    node = None
    for tokens in blocks:
        node = index.insert(namespace, node, tokens)
        if node.block is None:
            node.attach(Block(BlockId(0)))
    assert node is not None
    return node


def test_a_match_is_the_longest_run_from_the_beginning() -> None:
    index = PrefixIndex()
    xyz = insert(index, A, b"x", b"y", b"z")
    xw = insert(index, A, b"x", b"w")
    assert index.match(A, [b"x", b"y", b"z", b"q"], None)[-1] is xyz
    assert index.match(A, [b"x", b"w"], None)[-1] is xw
    assert len(index.match(A, [b"x", b"q", b"z"], None)) == 1
    assert index.match(A, [b"y", b"z"], None) == []
    assert index.match(A, [], None) == []


def test_namespaces_do_not_see_each_other() -> None:
    index = PrefixIndex()
    insert(index, A, b"x")
    assert index.match(B, [b"x"], None) == []
    assert index.child(B, None, b"x") is None


def test_a_match_stops_at_an_evicted_block_and_at_one_pending_in_another_step() -> None:
    index = PrefixIndex()
    node = insert(index, A, b"x", b"y")
    node.owner, node.step = RequestId("r"), 7
    assert len(index.match(A, [b"x", b"y"], 7)) == 2
    assert len(index.match(A, [b"x", b"y"], 8)) == 1
    assert len(index.match(A, [b"x", b"y"], None)) == 1
    assert [node.is_usable(step) for step in (7, 8, None)] == [True, False, False]
    node.detach()
    assert len(index.match(A, [b"x", b"y"], 7)) == 1
    assert not node.is_usable(7)


def test_a_root_goes_with_its_last_child() -> None:
    index = PrefixIndex()
    x, y = insert(index, A, b"x"), insert(index, A, b"y")
    assert set(index) == {x, y}
    for node in (x, y):
        node.detach()
        index.remove(node)
    assert (list(index), index.num_namespaces) == ([], 0)
    assert index.child(A, None, b"x") is None


def test_a_node_with_block_or_children_cannot_be_removed() -> None:
    index = PrefixIndex()
    insert(index, A, b"x", b"y")
    x = index.child(A, None, b"x")
    assert x is not None
    with pytest.raises(AssertionError):
        index.remove(x)
    x.detach()
    with pytest.raises(AssertionError):
        index.remove(x)

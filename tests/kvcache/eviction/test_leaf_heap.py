from anaphora.kvcache.eviction.leaf_heap import LeafHeap
from anaphora.kvcache.prefix_index import PrefixNode
from anaphora.types import Namespace


def test_the_lowest_rank_comes_first_and_what_was_removed_never() -> None:
    heap = LeafHeap()
    nodes = [PrefixNode(Namespace(""), None, bytes([i])) for i in range(4)]
    for node, rank in zip(nodes, (5, 3, 1, 4), strict=True):
        heap.add(node, rank)
    heap.remove(nodes[2])
    assert (len(heap), nodes[2] in heap, nodes[1] in heap) == (3, False, True)
    assert heap.first() is nodes[1]
    assert [heap.pop() for _ in range(3)] == [nodes[1], nodes[3], nodes[0]]


def test_a_copy_is_independent() -> None:
    heap = LeafHeap()
    node = PrefixNode(Namespace(""), None, b"")
    heap.add(node, 1)
    copy = heap.copy()
    assert heap.pop() is node
    assert (len(heap), len(copy)) == (0, 1)


def test_leaves_that_come_and_go_do_not_fill_the_heap() -> None:
    heap = LeafHeap()
    node = PrefixNode(Namespace(""), None, b"")
    for rank in range(1000):
        heap.add(node, rank)
        heap.remove(node)
    assert len(heap._heap) <= 66
    heap.add(node, 7)
    assert heap.pop() is node

from anaphora.kvcache.extent import Extent
from anaphora.kvcache.extent_heap import ExtentHeap
from anaphora.types import Namespace


def extent() -> Extent:
    return Extent(Namespace(""), None, bytearray(4), 4)


def test_the_lowest_rank_comes_first_and_what_was_removed_never() -> None:
    heap = ExtentHeap()
    extents = [extent() for _ in range(4)]
    for one, rank in zip(extents, (5, 3, 1, 4), strict=True):
        heap.add(one, rank)
    heap.remove(extents[2])
    assert (len(heap), extents[2] in heap, extents[1] in heap) == (3, False, True)
    first = heap.first()
    assert first
    assert (first[0], first[-1]) == (3, extents[1])
    assert heap.ranked() == [((3,), extents[1]), ((4,), extents[3]), ((5,), extents[0])]
    assert [heap.pop() for _ in range(3)] == [extents[1], extents[3], extents[0]]
    assert heap.first() is None


def test_another_may_have_the_rank_of_one_that_was_removed() -> None:
    heap = ExtentHeap()
    first, second = extent(), extent()
    heap.add(first, 1)
    heap.remove(first)
    heap.add(second, 1)
    assert heap.pop() is second


def test_a_copy_is_independent() -> None:
    heap, one = ExtentHeap(), extent()
    heap.add(one, 1)
    copy = heap.copy()
    assert heap.pop() is one
    assert (len(heap), len(copy)) == (0, 1)


def test_extents_that_come_and_go_do_not_fill_the_heap() -> None:
    heap, one = ExtentHeap(), extent()
    for rank in range(1000):
        heap.add(one, rank)
        heap.remove(one)
    assert len(heap._heap) <= 66
    assert heap.first() is None
    heap.add(one, 7)
    assert heap.pop() is one

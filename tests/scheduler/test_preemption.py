"""When blocks run out, the request that came last gives its own. Blocks of 4 tokens."""

from tests.scheduler.bench import make_bench, parts

from anaphora.kvcache.ledger import Reason
from anaphora.scheduler.request import RequestStatus
from anaphora.types import RequestId


def test_the_latest_arrived_is_preempted_and_comes_back_first() -> None:
    bench = make_bench(num_blocks=4)
    bench.add("a", [1] * 7, max_tokens=4)
    b = bench.add("b", [2] * 7, max_tokens=4)
    bench.add("c", [3])
    bench.step()
    bench.step()
    output = bench.schedule()
    assert (parts(output), output.preempted) == ([("a", 8, 9)], ("b",)), "and nobody is admitted in that step"
    assert (b.status, b.num_computed_tokens) == (RequestStatus.PREEMPTED, 0)
    bench.update(output)
    # One of b's blocks was taken for a. The other is found again: four tokens of b's nine need not be computed.
    assert bench.drain() == [
        [("a", 9, 10)],
        [("b", 4, 9), ("c", 0, 1)],
        [("b", 9, 10)],
    ]
    assert b.num_recomputed_tokens == 4
    assert bench.scheduler.stats.num_preemptions == 1
    assert bench.scheduler.stats.num_recomputed_tokens == 4


def test_its_own_surviving_blocks_are_no_hits() -> None:
    bench = make_bench(num_blocks=4)
    bench.add("a", [1] * 7, max_tokens=4)
    b = bench.add("b", [2] * 7, max_tokens=4)
    bench.drain()
    assert b.ledger is not None
    assert b.ledger.counts == {Reason.NEW: 4, Reason.TAIL: 3}
    stats = bench.scheduler.cache.stats
    assert (stats.num_requests, stats.num_queried_tokens, stats.num_cached_tokens) == (2, 14, 0)


def test_the_last_to_come_preempts_itself() -> None:
    bench = make_bench(num_blocks=3)
    bench.add("a", [1] * 4, max_tokens=6)
    bench.add("b", [2] * 4, max_tokens=6)
    assert bench.step() == [("a", 0, 4), ("b", 0, 4)]
    output = bench.schedule()
    assert (parts(output), output.preempted) == ([("a", 4, 5)], ("b",))
    bench.update(output)
    assert bench.drain()[-1] == [("b", 8, 9)]


def test_a_victim_whose_blocks_are_all_shared_frees_none_and_the_next_one_goes_too() -> None:
    bench = make_bench(num_blocks=5)
    bench.add("a", [1] * 8, max_tokens=2)
    for name in "bc":
        bench.add(name, [2] * 8, max_tokens=2)
    assert bench.step() == [("a", 0, 8), ("b", 0, 8), ("c", 4, 8)]
    assert bench.table("b") == bench.table("c") == (2, 3)
    output = bench.schedule()
    assert (parts(output), output.preempted) == ([("a", 8, 9)], ("c", "b"))
    bench.update(output)
    assert bench.drain() == [[("b", 8, 9), ("c", 8, 9)]]


def test_without_caching_all_is_computed_again() -> None:
    bench = make_bench(num_blocks=4, caching=False)
    bench.add("a", [1] * 7, max_tokens=4)
    b = bench.add("b", [2] * 7, max_tokens=4)
    bench.drain()
    assert b.num_recomputed_tokens == 8


def test_a_preempted_request_can_be_aborted_and_an_interrupted_return_repeated() -> None:
    bench = make_bench(num_blocks=4)
    bench.add("a", [1] * 7, max_tokens=4)
    b = bench.add("b", [2] * 7, max_tokens=4)
    for _ in range(4):
        bench.step()
    assert b.status is RequestStatus.PREEMPTED
    output = bench.schedule()
    assert parts(output) == [("b", 4, 9)]
    bench.scheduler.fail(output)
    assert b.status is RequestStatus.PREEMPTED
    assert b.ledger is not None, "it was counted long ago"
    bench.scheduler.abort(RequestId("b"))
    bench.scheduler.check_integrity()
    assert bench.scheduler.schedule() is None

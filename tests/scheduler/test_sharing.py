"""Requests of one step share what neither had; and what becomes of that when the step is lost. Blocks of 4 tokens."""

import pytest
from tests.scheduler.bench import Bench, make_bench, parts

from anaphora.kvcache.ledger import Reason
from anaphora.scheduler.request import RequestStatus
from anaphora.types import RequestId

PREFIX = list(range(100, 112))  # three blocks


def three_with_a_common_prefix() -> Bench:
    """``a`` computes the prefix; ``b`` reads it, ``c`` reads it and a block of ``b``'s; ``d`` has its own."""
    bench = make_bench()
    bench.add("a", [*PREFIX, 1], max_tokens=2)
    bench.add("b", [*PREFIX, 2, 2, 2, 2, 2], max_tokens=2)
    bench.add("c", [*PREFIX, 2, 2, 2, 2, 3], max_tokens=2)
    bench.add("d", [9] * 5, max_tokens=2)
    return bench


def test_a_common_prefix_is_computed_once() -> None:
    bench = three_with_a_common_prefix()
    output = bench.schedule()
    assert parts(output) == [("a", 0, 13), ("b", 12, 17), ("c", 16, 17), ("d", 0, 5)]
    assert [list(part.block_table) for part in output.scheduled] == [
        [0, 1, 2, 3],
        [0, 1, 2, 4, 5],
        [0, 1, 2, 4, 6],
        [7, 8],
    ]
    bench.update(output)
    assert [bench.cached(name) for name in "abcd"] == [0, 12, 16, 0]
    bench.drain()


def test_sixteen_at_once_over_an_uncached_prefix_longer_than_a_step() -> None:
    bench = make_bench(budget=16, num_seqs=16)
    prefix = list(range(24))
    for i in range(16):
        bench.add(f"r{i}", [*prefix, 200 + i])
    steps = bench.drain()
    assert steps[0] == [("r0", 0, 16)]
    assert steps[1] == [("r0", 16, 25), *((f"r{i}", 24, 25) for i in range(1, 8))]
    assert steps[2] == [(f"r{i}", 24, 25) for i in range(8, 16)]
    assert bench.scheduler.cache.stats.num_cached_tokens == 15 * 24
    assert bench.scheduler.stats.num_computed_tokens == 24 + 16


@pytest.mark.parametrize("budget", range(1, 20))
@pytest.mark.parametrize("late_by", [0, 1, 2])
def test_nobody_is_admitted_while_what_it_would_share_is_being_computed(budget: int, late_by: int) -> None:
    """So nothing is computed twice, and no token is ever ``in_flight``."""
    bench = make_bench(budget=budget)
    bench.add("other", [8] * 5, max_tokens=6)
    bench.add("a", [*PREFIX, 1, 2, 3], max_tokens=3)
    for _ in range(late_by):
        bench.step()
    bench.add("b", [*PREFIX, 1, 7, 7, 7], max_tokens=3)
    bench.add("c", [*PREFIX, 1], max_tokens=3)
    bench.drain()
    assert [bench.cached(name) for name in ("a", "b", "c")] == [0, 12, 12]
    reasons = bench.scheduler.cache.stats.num_tokens_by_reason
    assert reasons[Reason.IN_FLIGHT] == 0
    assert reasons.total() == 5 + 15 + 16 + 13


def test_namespaces_share_nothing_even_within_a_step() -> None:
    bench = make_bench()
    bench.add("a", [*PREFIX, 1], namespace="x")
    bench.add("b", [*PREFIX, 1], namespace="y")
    assert bench.step() == [("a", 0, 13), ("b", 0, 13)]


def test_equal_prompts_of_whole_blocks_in_one_step_end_with_one_copy() -> None:
    bench = make_bench()
    for name in "ab":
        bench.add(name, PREFIX, max_tokens=2)
    output = bench.schedule()
    assert [list(part.block_table) for part in output.scheduled] == [[0, 1, 2], [0, 1, 3]]
    ledger = bench.requests["b"].ledger
    assert ledger is not None
    assert ledger.counts == {Reason.REUSED_DEVICE: 8, Reason.LAST_TOKEN: 4}
    bench.update(output)
    assert bench.table("a") == bench.table("b") == (0, 1, 2)


class TestAbortBetweenScheduleAndUpdate:
    def test_whoever_was_to_read_its_blocks_waits_again(self) -> None:
        bench = three_with_a_common_prefix()
        output = bench.schedule()
        bench.scheduler.abort(RequestId("a"))
        bench.scheduler.check_integrity()
        assert [bench.requests[name].status for name in "bcd"] == [
            RequestStatus.WAITING,
            RequestStatus.WAITING,
            RequestStatus.RUNNING,
        ]
        assert bench.requests["b"].ledger is None
        assert bench.update(output) == []
        assert [list(bench.requests[name].output_token_ids) for name in "abcd"] == [[], [], [], [7]]
        assert bench.step() == [("d", 5, 6), ("b", 0, 17), ("c", 16, 17)]
        assert [bench.cached(name) for name in "bcd"] == [0, 16, 0]
        assert bench.scheduler.cache.stats.num_requests == 3

    def test_requests_stay_in_the_order_of_their_arrival(self) -> None:
        bench = three_with_a_common_prefix()
        output = bench.schedule()
        bench.scheduler.abort(RequestId("a"))
        bench.update(output)
        bench.step()
        assert bench.drain()[0] == [("b", 17, 18), ("c", 17, 18)]

    def test_a_reader_may_go_without_harm_to_the_owner(self) -> None:
        bench = three_with_a_common_prefix()
        output = bench.schedule()
        bench.scheduler.abort(RequestId("c"))
        assert bench.update(output) == []
        assert bench.step() == [("a", 13, 14), ("b", 17, 18), ("d", 5, 6)]

    def test_a_request_that_waits_may_go(self) -> None:
        bench = make_bench(num_seqs=1)
        bench.add("a", PREFIX, max_tokens=2)
        bench.add("b", PREFIX)
        output = bench.schedule()
        bench.scheduler.abort(RequestId("b"))
        bench.update(output)
        assert bench.drain() == [[("a", 12, 13)]]

    def test_a_running_request_in_a_later_chunk_takes_its_readers_along_but_leaves_what_was_there(self) -> None:
        bench = make_bench(budget=8)
        bench.add("a", [*PREFIX, 1], max_tokens=2)
        bench.add("b", [*PREFIX, 2, 3], max_tokens=2)
        assert bench.step() == [("a", 0, 8)]
        output = bench.schedule()
        assert parts(output) == [("a", 8, 13), ("b", 12, 14)]
        bench.scheduler.abort(RequestId("a"))
        bench.update(output)
        assert bench.step() == [("b", 8, 14)]
        assert bench.cached("b") == 8

    def test_its_prompt_is_no_earlier_prompt(self) -> None:
        bench = make_bench()
        bench.add("a", [*PREFIX, 1])
        output = bench.schedule()
        bench.scheduler.abort(RequestId("a"))
        bench.update(output)
        request = bench.add("b", [*PREFIX[:6], *range(6)])
        bench.drain()
        assert request.ledger is not None
        assert request.ledger.counts == {Reason.NEW: 12}

    def test_the_same_name_may_come_again_before_the_results(self) -> None:
        bench = make_bench()
        bench.add("a", PREFIX)
        output = bench.schedule()
        bench.scheduler.abort(RequestId("a"))
        again = bench.add("a", [1, 2, 3])
        assert bench.update(output) == []
        assert again.num_output_tokens == 0
        assert bench.drain() == [[("a", 0, 3)]]


class TestFailedStep:
    def test_everything_is_as_before_and_comes_again(self) -> None:
        bench = three_with_a_common_prefix()
        first = bench.schedule()
        bench.scheduler.fail(first)
        bench.scheduler.check_integrity()
        assert (bench.scheduler.num_running, bench.scheduler.num_waiting) == (0, 4)
        assert bench.scheduler.cache.usage == 0
        assert list(bench.scheduler.cache.prefixes.index) == []
        second = bench.schedule()
        assert parts(second) == parts(first)
        assert [part.block_table for part in second.scheduled] == [part.block_table for part in first.scheduled]
        bench.update(second)
        stats = bench.scheduler.stats
        assert (stats.num_steps, stats.num_failed_steps, bench.scheduler.cache.stats.num_requests) == (1, 1, 4)

    def test_running_requests_keep_what_they_had(self) -> None:
        bench = make_bench(budget=8)
        bench.add("a", [*PREFIX, 1], max_tokens=2)
        bench.add("b", [*PREFIX, 2, 3], max_tokens=2)
        bench.step()
        bench.scheduler.fail(bench.schedule())
        bench.scheduler.check_integrity()
        assert [bench.requests[name].status for name in "ab"] == [RequestStatus.RUNNING, RequestStatus.WAITING]
        assert bench.step() == [("a", 8, 13), ("b", 12, 14)]

    def test_a_failed_admission_leaves_the_ledger_as_if_it_had_never_been(self) -> None:
        bench = make_bench()
        request = bench.add("a", [*PREFIX, 1])
        for _ in range(2):
            bench.scheduler.fail(bench.schedule())
            assert request.ledger is None
        bench.drain()
        assert request.ledger is not None
        assert request.ledger.counts == {Reason.NEW: 12, Reason.TAIL: 1}

    def test_after_an_abort_too(self) -> None:
        bench = three_with_a_common_prefix()
        output = bench.schedule()
        bench.scheduler.abort(RequestId("a"))
        bench.scheduler.fail(output)
        bench.scheduler.check_integrity()
        assert bench.step() == [("b", 0, 17), ("c", 16, 17), ("d", 0, 5)]

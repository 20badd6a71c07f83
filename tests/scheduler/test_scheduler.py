"""Steps, budgets and ends: which tokens of which request, in which order. Blocks of 4 tokens."""

import pytest
from tests.scheduler.bench import make_bench, parts

from anaphora.errors import PromptTooLongError, RequestError
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.ledger import Divergence, Reason
from anaphora.kvcache.manager import KVCacheManager
from anaphora.scheduler.config import SchedulerConfig
from anaphora.scheduler.request import RequestStatus
from anaphora.scheduler.scheduler import Scheduler
from anaphora.types import RequestId


class TestSteps:
    def test_nothing_to_do_is_none(self) -> None:
        assert make_bench().scheduler.schedule() is None

    def test_a_prompt_in_one_step_and_then_token_by_token(self) -> None:
        bench = make_bench()
        request = bench.add("a", [1, 2, 3, 4, 5], max_tokens=3)
        assert bench.drain() == [[("a", 0, 5)], [("a", 5, 6)], [("a", 6, 7)]]
        assert list(request.output_token_ids) == [7, 7, 7]
        assert (request.finish_reason, request.stop_reason) == ("length", None)

    def test_a_long_prompt_is_cut_into_chunks_and_samples_at_its_end_only(self) -> None:
        bench = make_bench(budget=4)
        bench.add("a", list(range(10)), max_tokens=2)
        samples = []
        for _ in range(4):
            output = bench.schedule()
            samples.append([part.samples for part in output.scheduled])
            bench.update(output)
        assert samples == [[False], [False], [True], [True]]

    def test_running_requests_come_before_waiting_ones_within_the_budget(self) -> None:
        bench = make_bench(budget=6)
        bench.add("a", list(range(9)), max_tokens=3)
        bench.add("b", [50, 51, 52, 53, 54], max_tokens=2)
        assert bench.drain() == [
            [("a", 0, 6)],
            [("a", 6, 9), ("b", 0, 3)],
            [("a", 9, 10), ("b", 3, 5)],
            [("a", 10, 11), ("b", 5, 6)],
        ]

    def test_nobody_joins_a_step_that_computes_enough(self) -> None:
        """So the first do not wait for the last; the last get their tokens no later for it."""
        bench = make_bench(target=6)
        for name in "abcd":
            bench.add(name, [ord(name)] * 4, max_tokens=2)
        assert bench.drain() == [
            [("a", 0, 4), ("b", 0, 4)],
            [("a", 4, 5), ("b", 4, 5), ("c", 0, 4), ("d", 0, 4)],
            [("c", 4, 5), ("d", 4, 5)],
        ]

    def test_a_step_in_which_many_decode_holds_more_prompts(self) -> None:
        """Four tokens of prompts for each that decodes: else each step for a few prompts would cost all of them one."""
        bench = make_bench(target=2, num_seqs=16)
        for name in "abc":
            bench.add(name, [ord(name)] * 2, max_tokens=9)
        assert [bench.step() for _ in range(2)] == [[("a", 0, 2)], [("a", 2, 3), ("b", 0, 2), ("c", 0, 2)]]
        for name in "defghij":
            bench.add(name, [ord(name)] * 2)
        assert bench.step()[3:] == [(name, 0, 2) for name in "defghi"]

    def test_a_long_prompt_takes_its_step_whatever_the_target(self) -> None:
        bench = make_bench(budget=8, target=4)
        bench.add("a", list(range(20)))
        bench.add("b", [50, 51])
        assert bench.drain() == [[("a", 0, 8)], [("a", 8, 16)], [("a", 16, 20)], [("b", 0, 2)]]

    def test_nobody_overtakes(self) -> None:
        bench = make_bench(num_blocks=4)
        bench.add("a", [1] * 8, max_tokens=2)
        bench.add("b", [2] * 12)
        bench.add("c", [3])
        assert bench.step() == [("a", 0, 8)]
        assert bench.step() == [("a", 8, 9)]
        assert bench.step() == [("b", 0, 12), ("c", 0, 1)]

    def test_who_runs_is_told_in_the_order_of_arrival(self) -> None:
        bench = make_bench(num_seqs=2)
        scheduler = bench.scheduler
        counts, running = [], []
        for name in "abc":
            bench.add(name, [ord(name)], max_tokens=2)
        counts.append((scheduler.num_running, scheduler.num_waiting))
        while scheduler.num_running + scheduler.num_waiting:
            output = bench.schedule()
            running.append([request.request_id for request in scheduler.running])
            bench.update(output)
            counts.append((scheduler.num_running, scheduler.num_waiting))
        assert running == [["a", "b"], ["a", "b"], ["c"], ["c"]]
        assert counts == [(0, 3), (2, 1), (0, 1), (1, 0), (0, 0)]

    def test_no_more_requests_run_than_allowed(self) -> None:
        bench = make_bench(num_seqs=2)
        for name in "abc":
            bench.add(name, [ord(name)], max_tokens=2)
        assert bench.step() == [("a", 0, 1), ("b", 0, 1)]
        assert (bench.scheduler.num_running, bench.scheduler.num_waiting) == (2, 1)
        assert bench.step() == [("a", 1, 2), ("b", 1, 2)]
        assert bench.step() == [("c", 0, 1)]

    def test_with_a_budget_below_the_running_requests_the_earlier_ones_go_first(self) -> None:
        bench = make_bench(budget=2)
        for name in "abc":
            bench.add(name, [ord(name)], max_tokens=2)
        assert bench.drain() == [
            [("a", 0, 1), ("b", 0, 1)],
            [("a", 1, 2), ("b", 1, 2)],
            [("c", 0, 1)],
            [("c", 1, 2)],
        ]

    def test_without_chunks_a_prompt_waits_until_a_step_has_room_for_all_of_it(self) -> None:
        bench = make_bench(budget=12, max_model_len=12, chunked=False)
        bench.add("a", list(range(8)), max_tokens=2)
        bench.add("b", [50] * 6)
        bench.add("c", [60])
        assert bench.drain() == [[("a", 0, 8)], [("a", 8, 9), ("b", 0, 6), ("c", 0, 1)]]

    def test_the_output_says_what_the_step_is(self) -> None:
        bench = make_bench()
        bench.add("a", [1, 2, 3, 4, 5])
        bench.add("b", [9])
        output = bench.schedule()
        assert (output.step, output.num_tokens, output.preempted) == (0, 6, ())
        assert [list(part.block_table) for part in output.scheduled] == [[0, 1], [2]]
        assert [part.num_new_tokens for part in output.scheduled] == [5, 1]
        bench.update(output)
        assert bench.scheduler.stats.num_steps == 1
        assert bench.scheduler.stats.num_computed_tokens == 6

    def test_schedule_and_update_take_turns(self) -> None:
        bench = make_bench()
        bench.add("a", [1], max_tokens=2)
        output = bench.schedule()
        with pytest.raises(AssertionError, match="call update or fail"):
            bench.scheduler.schedule()
        with pytest.raises(AssertionError, match="no token was sampled for"):
            bench.scheduler.update(output, {})
        bench.update(output)
        with pytest.raises(AssertionError, match="there is no step"):
            bench.scheduler.update(output, {})
        bench.schedule()
        with pytest.raises(AssertionError, match="no output of the present step"):
            bench.scheduler.update(output, {RequestId("a"): 1})

    def test_a_pass_more_is_for_those_that_the_target_keeps_out(self) -> None:
        bench = make_bench(budget=40, target=8)
        bench.add("a", [5], max_tokens=3)
        bench.step()
        for number in range(4):
            bench.add(f"{number}", [10 * number + i for i in range(6)])
        first = bench.schedule()
        second = bench.extend()
        assert [parts(first), parts(second)] == [[("a", 1, 2), ("0", 0, 6), ("1", 0, 6)], [("2", 0, 6), ("3", 0, 6)]]
        assert first.step == second.step
        assert list(bench.scheduler.passes) == [first, second]
        assert bench.scheduler.extend() is None
        with pytest.raises(AssertionError, match="an earlier pass has not been taken in"):
            bench.update(second)
        assert bench.update(first) == ["0", "1"]
        with pytest.raises(AssertionError, match="call update or fail"):
            bench.scheduler.schedule()
        bench.add("late", [99])
        third = bench.extend()
        assert parts(third) == [("late", 0, 1)]
        assert bench.update(second) == ["2", "3"]
        assert bench.update(third) == ["late"]
        assert bench.scheduler.passes == ()
        assert bench.step() == [("a", 2, 3)]

    def test_a_pass_may_read_what_one_before_it_computes(self) -> None:
        bench = make_bench(budget=40, target=8)
        shared = list(range(8))
        for name in "abc":
            bench.add(name, [*shared, ord(name)])
        first = bench.schedule()
        second = bench.extend()
        assert [parts(first), parts(second)] == [[("a", 0, 9)], [("b", 8, 9), ("c", 8, 9)]]
        bench.scheduler.abort(RequestId("a"))
        bench.scheduler.check_integrity()
        assert bench.scheduler.expected(second) == []
        third = bench.extend()
        assert parts(third) == [("b", 0, 9)]
        assert [bench.update(output) for output in (first, second, third)] == [[], [], ["b"]]
        assert bench.step() == [("c", 8, 9)]

    def test_a_step_ends_after_some_passes(self) -> None:
        bench = make_bench(budget=1000, target=2, max_model_len=40, num_blocks=200)
        for number in range(9):
            bench.add(f"{number}", [10 * number, 1, 2])
        outputs = [bench.schedule()]
        while (output := bench.scheduler.extend()) is not None:
            outputs.append(output)
        assert [len(output.scheduled) for output in outputs] == [1] * 6
        for output in outputs:
            bench.update(output)

    def test_nothing_follows_a_long_prompt(self) -> None:
        bench = make_bench(target=4)
        bench.add("long", list(range(9)))
        bench.add("short", [50])
        output = bench.schedule()
        assert bench.scheduler.extend() is None
        bench.update(output)

    def test_without_a_target_a_step_is_one_pass(self) -> None:
        bench = make_bench(budget=4)
        bench.add("a", [1, 2, 3, 4])
        output = bench.schedule()
        bench.add("b", [5])
        assert bench.scheduler.extend() is None
        bench.update(output)
        with pytest.raises(AssertionError, match="call schedule"):
            bench.scheduler.extend()

    def test_who_stands_by_is_in_no_pass(self) -> None:
        bench = make_bench(budget=6)
        bench.add("a", [1, 2, 3, 4], max_tokens=3)
        bench.add("b", list(range(10, 18)), max_tokens=2)
        bench.step()
        stands = bench.scheduler.standing_by()
        assert [(part.request.request_id, part.start, part.end, part.samples) for part in stands] == [
            ("a", 4, 4, True),
            ("b", 2, 2, False),
        ]
        assert [list(part.block_table) for part in stands] == [[0], [1]]
        output = bench.schedule()
        assert bench.scheduler.standing_by() == []
        bench.update(output)

    def test_a_manager_may_be_handed_in(self) -> None:
        cache = KVCacheManager(CacheConfig(num_blocks=2))
        assert Scheduler(SchedulerConfig(max_model_len=9), cache).cache is cache


class TestEnds:
    def test_a_stop_token_ends_the_request_and_belongs_to_its_output(self) -> None:
        bench = make_bench()
        request = bench.add("a", [1], max_tokens=9, stop=frozenset({7, 8}))
        bench.step(token=3)
        output = bench.schedule()
        assert bench.update(output, token=8) == ["a"]
        assert list(request.output_token_ids) == [3, 8]
        assert (request.finish_reason, request.stop_reason) == ("stop", 8)

    def test_before_the_minimum_a_stop_token_does_not_stop(self) -> None:
        bench = make_bench()
        request = bench.add("a", [1], max_tokens=9, min_tokens=3, stop=frozenset({7}))
        bench.drain()
        assert (request.num_output_tokens, request.finish_reason) == (3, "stop")

    def test_a_stop_token_as_the_last_one_allowed_is_a_stop(self) -> None:
        bench = make_bench()
        request = bench.add("a", [1], max_tokens=1, stop=frozenset({7}))
        bench.drain()
        assert request.finish_reason == "stop"

    def test_no_tokens_wanted_ends_after_the_prompt(self) -> None:
        bench = make_bench(budget=3)
        request = bench.add("a", [1, 2, 3, 4, 5], max_tokens=0)
        assert bench.step() == [("a", 0, 3)]
        output = bench.schedule()
        assert [part.samples for part in output.scheduled] == [False]
        assert bench.update(output) == ["a"]
        assert (request.finish_reason, request.num_output_tokens) == ("length", 0)

    def test_the_context_ends_the_request(self) -> None:
        bench = make_bench(max_model_len=6)
        request = bench.add("a", [1, 2, 3, 4], max_tokens=50)
        bench.drain()
        assert (request.num_tokens, request.finish_reason) == (6, "length")

    def test_so_does_a_full_cache_of_which_the_last_token_needs_nothing(self) -> None:
        bench = make_bench(num_blocks=2)
        request = bench.add("a", [1, 2, 3, 4], max_tokens=50)
        bench.drain()
        assert (request.num_tokens, request.finish_reason) == (9, "length")


class TestRefusals:
    def test_a_prompt_must_leave_room_in_the_context_for_one_token(self) -> None:
        bench = make_bench(max_model_len=5)
        with pytest.raises(PromptTooLongError, match="has 5 tokens, but the context length is 5 tokens") as caught:
            bench.add("a", [1] * 5)
        assert (caught.value.param, caught.value.code) == ("prompt", "context_length_exceeded")
        bench.add("a", [1] * 5, max_tokens=0)
        bench.add("b", [1] * 4)
        bench.drain()

    def test_a_prompt_must_fit_the_cache(self) -> None:
        bench = make_bench(num_blocks=2)
        with pytest.raises(PromptTooLongError, match="has 9 tokens, but the KV cache holds 8"):
            bench.add("a", [1] * 9)
        request = bench.add("a", [1] * 8)
        bench.drain()
        assert request.finish_reason == "length"

    def test_a_name_in_use_is_refused_and_free_again_afterwards(self) -> None:
        bench = make_bench()
        bench.add("a", [1])
        with pytest.raises(RequestError, match="request id 'a' is in use"):
            bench.add("a", [2])
        bench.drain()
        bench.add("a", [2])


class TestAbort:
    def test_whoever_is_not_here_cannot_be_aborted(self) -> None:
        bench = make_bench()
        assert bench.scheduler.abort(RequestId("a")) is None
        bench.add("a", [1])
        bench.drain()
        assert bench.scheduler.abort(RequestId("a")) is None

    def test_waiting_and_running_requests_go_and_their_blocks_are_free(self) -> None:
        bench = make_bench(num_seqs=1)
        a, b = bench.add("a", [1] * 6, max_tokens=9), bench.add("b", [2])
        bench.step()
        assert bench.scheduler.abort(RequestId("b")) is b
        assert bench.scheduler.abort(RequestId("a")) is a
        assert (a.finish_reason, b.finish_reason) == ("abort", "abort")
        assert (a.status, b.status) == (RequestStatus.FINISHED, RequestStatus.FINISHED)
        assert bench.scheduler.cache.usage == 0
        assert bench.scheduler.schedule() is None
        bench.scheduler.check_integrity()

    def test_what_an_aborted_request_has_computed_stays_cached(self) -> None:
        bench = make_bench()
        bench.add("a", [1] * 6, max_tokens=9)
        bench.step()
        bench.scheduler.abort(RequestId("a"))
        bench.add("b", [1] * 6)
        bench.drain()
        assert bench.cached("b") == 4


class TestReset:
    def test_it_happens_only_when_no_block_is_in_use(self) -> None:
        bench = make_bench()
        bench.add("a", [1] * 6, max_tokens=3)
        assert bench.scheduler.reset_prefix_cache(), "a request that waits holds nothing"
        output = bench.schedule()
        assert not bench.scheduler.reset_prefix_cache()
        bench.update(output)
        assert not bench.scheduler.reset_prefix_cache()
        bench.drain()
        assert bench.scheduler.reset_prefix_cache()
        bench.add("b", [1] * 6)
        bench.drain()
        assert bench.cached("b") == 0


class TestCounters:
    def test_each_request_is_counted_once_after_its_first_step(self) -> None:
        bench = make_bench(budget=4)
        bench.add("a", [1] * 10, max_tokens=2)
        output = bench.schedule()
        stats = bench.scheduler.cache.stats
        assert stats.num_requests == 0
        bench.update(output)
        assert (stats.num_requests, stats.num_queried_tokens, stats.num_cached_tokens) == (1, 10, 0)
        bench.drain()
        assert (stats.num_requests, stats.num_queried_tokens, stats.num_cached_tokens) == (1, 10, 0)
        bench.add("b", [1] * 10)
        bench.drain()
        assert (stats.num_requests, stats.num_queried_tokens, stats.num_cached_tokens) == (2, 20, 8)
        assert stats.num_prompt_tokens == 20
        assert stats.num_tokens_by_reason == {Reason.NEW: 8, Reason.REUSED_DEVICE: 8, Reason.TAIL: 4}

    def test_a_request_that_passes_the_cache_by_adds_nothing_to_queries_and_hits_but_is_stored(self) -> None:
        bench = make_bench()
        bench.add("a", [1] * 10)
        bench.drain()
        request = bench.add("b", [*[1] * 10, 2, 3], lookup=False)
        assert bench.drain() == [[("b", 0, 12)]]
        assert request.ledger is not None
        assert request.ledger.counts == {Reason.BYPASSED: 12}
        stats = bench.scheduler.cache.stats
        assert (stats.num_requests, stats.num_queried_tokens, stats.num_cached_tokens) == (2, 10, 0)
        bench.add("c", [*[1] * 10, 2, 3, 4])
        bench.drain()
        assert bench.cached("c") == 12

    def test_with_caching_off_everything_is_bypassed(self) -> None:
        bench = make_bench(caching=False)
        for name in "ab":
            request = bench.add(name, [1] * 10)
            bench.drain()
            assert request.ledger is not None
            assert request.ledger.counts == {Reason.BYPASSED: 10}
        assert bench.scheduler.cache.stats.num_queried_tokens == 0


def test_generated_blocks_are_found_by_the_next_turn() -> None:
    bench = make_bench()
    bench.add("a", [1, 2, 3], max_tokens=7)
    bench.drain()
    # Nine of the ten tokens were computed: the last one was sampled and ended the request.
    bench.add("b", [1, 2, 3, *[7] * 7, 5])
    assert bench.step() == [("b", 8, 11)]


def test_a_prompt_parts_from_an_earlier_one_even_of_the_same_step() -> None:
    bench = make_bench()
    for name, last in (("a", 1), ("b", 2)):
        bench.add(name, [5, 5, 5, 5, last, 5, 5, 5])
    bench.drain()
    ledger = bench.requests["b"].ledger
    assert ledger is not None
    assert ledger.counts == {Reason.REUSED_DEVICE: 4, Reason.DIVERGED: 4}
    assert ledger.divergence == Divergence(4, "a", (1, 5, 5, 5), (2, 5, 5, 5))


def test_decode_steps_make_no_new_block_table_until_it_grows() -> None:
    bench = make_bench()
    bench.add("a", [1, 2, 3, 4, 5], max_tokens=5)
    tables = []
    for _ in range(5):
        output = bench.schedule()
        tables.append(output.scheduled[0].block_table)
        bench.update(output)
    assert [list(table) for table in tables] == [[0, 1]] * 4 + [[0, 1, 2]]
    assert tables[0] is tables[3]


def test_the_same_operations_lead_to_the_same_steps() -> None:
    def trace() -> list[object]:
        bench = make_bench(num_blocks=9, budget=7)
        seen: list[object] = []
        for round_ in range(6):
            for name in "abc":
                bench.add(f"{name}{round_}", [round_ % 2] * 5 + [ord(name)] * 4, max_tokens=4)
            for _ in range(3):
                output = bench.schedule()
                seen.append((parts(output), [part.block_table for part in output.scheduled], output.preempted))
                bench.update(output, token=round_)
        return [*seen, bench.drain(), bench.scheduler.cache.stats, bench.scheduler.stats]

    assert trace() == trace()

"""Simulated time by hand, laws that every timeline keeps, and the ledgers of the scheduler without a clock."""

import random
from itertools import pairwise

import pytest

from anaphora.kvcache.config import CacheConfig
from anaphora.scheduler.config import SchedulerConfig
from anaphora.sim.latency import LatencyModel
from anaphora.sim.predict import Replay, SimulatedRequest
from anaphora.sim.served import TimedRequest, Timeline
from anaphora.sim.timeline import run_timeline
from anaphora.sim.timing import distribution, percentiles, timing_of, waiting_at_last_arrival
from anaphora.types import Namespace

N = Namespace("")
SECOND_A_STEP = LatencyModel(step_ms=1000)
CACHE = CacheConfig(num_blocks=64, block_size=4)
LIMITS = SchedulerConfig(max_model_len=1000)


def run(
    requests: list[TimedRequest],
    *,
    cache: CacheConfig = CACHE,
    scheduler: SchedulerConfig = LIMITS,
    latency: LatencyModel = SECOND_A_STEP,
) -> Timeline:
    return run_timeline(requests, cache=cache, scheduler=scheduler, latency=latency)


def asked(arrival_s: float, prompt: list[int], output: int = 1) -> TimedRequest:
    return TimedRequest(arrival_s, SimulatedRequest(N, prompt, output))


def times(timeline: Timeline) -> list[tuple[float | None, float | None, float | None]]:
    return [(one.scheduled_s, one.first_token_s, one.finished_s) for one in timeline.requests]


def test_a_request_that_comes_during_a_step_waits_for_its_end() -> None:
    timeline = run([asked(10, [1] * 9, 3), asked(10.5, [2] * 9, 1), asked(20, [3] * 9, 2)])
    assert times(timeline) == [(10, 11, 13), (11, 12, 12), (20, 21, 22)]
    assert [one.queue_s for one in timeline.requests] == [0, 0.5, 0]
    assert [one.tpot_s for one in timeline.requests] == [1, None, 1]
    assert (timeline.num_steps, timeline.busy_s, timeline.end_s) == (5, 5, 22)


def test_the_overhead_comes_before_the_first_step_and_is_no_work() -> None:
    timeline = run([asked(1, [1] * 9)], latency=LatencyModel(step_ms=1000, overhead_ms=500))
    assert times(timeline) == [(1.5, 2.5, 2.5)]
    assert (timeline.busy_s, timeline.requests[0].ttft_s) == (1, 1.5)


def test_a_budget_makes_chunks_and_a_limit_makes_a_queue() -> None:
    limits = SchedulerConfig(max_model_len=1000, max_num_batched_tokens=4, max_num_seqs=1)
    timeline = run([asked(0, [1] * 9), asked(0, [2] * 4)], scheduler=limits)
    assert times(timeline) == [(0, 3, 3), (3, 4, 4)]
    assert timeline.requests[0].own_ms == 3000


def test_a_hit_costs_what_is_left() -> None:
    per_token = LatencyModel(computed_ms_per_ktoken=1e6)
    timeline = run([asked(0, [*range(9)]), asked(100, [*range(9)])], latency=per_token)
    assert [one.ttft_s for one in timeline.requests] == [9, 1]


def test_requests_without_output_and_those_that_never_fit() -> None:
    timeline = run([asked(0, [1] * 9, 0), asked(0, [1] * 300), asked(5, [2] * 9)])
    assert times(timeline) == [(0, None, 1), (None, None, None), (5, 6, 6)]
    assert timeline.requests[1].refusal is not None
    assert timeline.requests[1].ttft_s is timeline.requests[1].queue_s is timeline.requests[1].e2e_s is None
    values = timing_of(timeline)
    assert (values["num_requests"], values["refused_requests"]) == (2, 1)
    assert values["ttft_ms"]["p50"] == 1000
    assert values["prompt_tokens"] == sum(values["ledger"].values()) == 18


def test_a_timing_by_hand() -> None:
    values = timing_of(run([asked(10, [1] * 9, 3), asked(10.5, [2] * 9, 1), asked(20, [3] * 9, 2)]))
    assert values["ttft_ms"] == {
        "mean": pytest.approx(3500 / 3),
        "p50": 1000,
        "p90": pytest.approx(1400),
        "p99": pytest.approx(1490),
        "max": 1500,
    }
    assert values["e2e_ms"]["max"] == 3000
    assert values["span_s"] == 12
    assert values["utilisation"] == 5 / 12
    assert (values["requests_per_s"], values["output_tokens_per_s"], values["prompt_tokens_per_s"]) == (0.25, 0.5, 2.25)
    assert (values["max_running"], values["preemptions"], values["waiting_at_last_arrival"]) == (2, 0, 0)
    assert values["ttft_percentiles_ms"] == percentiles([1, 1.5, 1])


def test_nothing_has_no_distribution() -> None:
    assert set(distribution([None]).values()) == {None}
    assert percentiles([]) == []
    assert waiting_at_last_arrival([]) == 0
    empty = timing_of(Timeline())
    assert (empty["utilisation"], empty["requests_per_s"], empty["token_hit_rate"]) == (None, None, None)


def test_who_waits_when_the_last_one_comes() -> None:
    limits = SchedulerConfig(max_model_len=1000, max_num_seqs=1)
    served = run([asked(0.1 * i, [i] * 4) for i in range(5)], scheduler=limits).requests
    assert waiting_at_last_arrival(served) == 4


def crowd(seed: int, num: int = 60) -> list[TimedRequest]:
    """Prompts that begin alike, in bursts, more than the cache holds."""
    chance = random.Random(seed)
    systems = [[chance.randrange(100) for _ in range(length)] for length in (8, 21, 40)]
    arrival_s, requests = 0.0, []
    for _ in range(num):
        arrival_s += chance.choice([0, 0, 0.01, 0.5])
        question = [chance.randrange(100) for _ in range(chance.randrange(1, 20))]
        requests.append(asked(arrival_s, chance.choice(systems) + question, chance.randrange(0, 30)))
    return requests


SMALL = CacheConfig(num_blocks=30, block_size=4)
TIGHT = SchedulerConfig(max_model_len=121, max_num_batched_tokens=16, max_num_seqs=7)
MODEL = LatencyModel(
    overhead_ms=2, step_ms=5, request_ms=1, computed_ms_per_ktoken=700, read_ms_per_ktoken=9, attention_ms_per_mpair=500
)


@pytest.mark.parametrize("seed", range(5))
def test_laws(seed: int) -> None:
    requests = crowd(seed)
    timeline = run(requests, cache=SMALL, scheduler=TIGHT, latency=MODEL)
    assert timeline.num_preemptions > 0
    assert timeline.num_evicted_blocks > 0
    assert [one.arrival_s for one in timeline.requests] == [one.arrival_s for one in requests]
    begins = []
    for one, timed in zip(timeline.requests, requests, strict=True):
        assert one.num_output_tokens == timed.asked.output
        assert one.ledger is not None
        assert one.ledger.num_prompt_tokens == len(timed.asked.prompt_token_ids)
        assert one.scheduled_s is not None
        assert one.finished_s is not None
        assert one.arrival_s + 0.002 <= one.scheduled_s < one.finished_s <= timeline.end_s
        begins.append(one.scheduled_s)
        if one.first_token_s is not None:
            ttft_ms = 1e3 * (one.first_token_s - one.arrival_s)
            assert ttft_ms >= one.own_ms + 2 - 1e-6
            least = MODEL.step_ms + MODEL.computed_ms_per_ktoken * (len(timed.asked.prompt_token_ids) / 1e3)
            assert one.own_ms >= least - MODEL.computed_ms_per_ktoken * one.ledger.num_cached_tokens / 1e3
    assert all(earlier <= later for earlier, later in pairwise(begins)), "nobody overtakes"
    assert timeline.busy_s <= timeline.end_s
    num_known = sum(one.num_prompt_tokens + max(one.num_output_tokens - 1, 0) for one in timeline.requests)
    num_cached = sum(one.ledger.num_cached_tokens for one in timeline.requests if one.ledger)
    assert timeline.num_computed_tokens <= num_known - num_cached + timeline.num_recomputed_tokens
    assert timing_of(timeline) == timing_of(run(requests, cache=SMALL, scheduler=TIGHT, latency=MODEL))


@pytest.mark.parametrize("seed", range(3))
def test_busy_is_the_sum_of_the_steps(seed: int) -> None:
    timeline = run(crowd(seed), cache=SMALL, scheduler=TIGHT, latency=LatencyModel(step_ms=7))
    assert timeline.busy_s == pytest.approx(0.007 * timeline.num_steps)


@pytest.mark.parametrize("num", [20, 60])
def test_all_at_once_has_the_ledgers_of_the_scheduler(num: int) -> None:
    """Also where only some of those who wait are known to the scheduler, as nobody overtakes."""
    requests = [timed._replace(arrival_s=0) for timed in crowd(9, num)]
    timeline = run(requests, cache=SMALL, scheduler=TIGHT, latency=MODEL)
    replay = Replay(SMALL, TIGHT)
    assert [one.ledger for one in timeline.requests] == replay.run_together(timed.asked for timed in requests)
    assert timeline.num_preemptions == replay.scheduler.stats.num_preemptions > 0
    assert timeline.num_steps == replay.scheduler.stats.num_steps
    assert timeline.num_computed_tokens == replay.scheduler.stats.num_computed_tokens


def test_far_apart_has_the_ledgers_of_one_after_another() -> None:
    requests = [timed._replace(arrival_s=1e4 * i) for i, timed in enumerate(crowd(4))]
    timeline = run(requests, cache=SMALL, scheduler=TIGHT, latency=MODEL)
    assert [one.ledger for one in timeline.requests] == Replay(SMALL, TIGHT).run_in_sequence(
        timed.asked for timed in requests
    )
    assert timeline.num_preemptions == 0
    assert all(one.queue_s == pytest.approx(0.002) for one in timeline.requests)

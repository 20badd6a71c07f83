"""Decode steps taken at once leave everything as they would one by one: times, ledgers, blocks, and their order."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.eviction import EVICTION_POLICIES
from anaphora.scheduler.config import SchedulerConfig
from anaphora.scheduler.scheduler import Scheduler
from anaphora.sim.latency import LatencyModel
from anaphora.sim.predict import SimulatedRequest
from anaphora.sim.served import TimedRequest, Timeline
from anaphora.sim.timeline import _Clockwork
from anaphora.types import Namespace

LATENCY = LatencyModel(step_ms=10, computed_ms_per_ktoken=70, read_ms_per_ktoken=13, attention_ms_per_mpair=9)


class OneByOne(Scheduler):
    """Never looks ahead."""

    def num_decode_steps(self) -> int:
        return 0


class Watched(Scheduler):
    """Audits itself, and counts what it took at once."""

    num_at_once = 0

    def decode(self, sampled: Any) -> None:
        self.num_at_once += len(next(iter(sampled.values())))
        super().decode(sampled)
        self.check_integrity()


@st.composite
def traffic(draw: st.DrawFn) -> list[TimedRequest]:
    """Few texts, so that prompts continue one another and answers repeat; bursts and pauses."""
    now_s, requests = 0.0, []
    for _ in range(draw(st.integers(1, 14))):
        now_s += draw(st.sampled_from([0, 0, 0.01, 0.35, 3]))
        text, length = draw(st.integers(0, 2)), draw(st.integers(1, 18))
        prompt = [*range(100 * text, 100 * text + length)]
        num_output = draw(st.integers(0, 30))
        output = range(100 * text + length, 100 * text + length + num_output) if draw(st.booleans()) else num_output
        namespace = Namespace(draw(st.sampled_from("ab")))
        requests.append(TimedRequest(now_s, SimulatedRequest(namespace, prompt, output, draw(st.booleans()))))
    return requests


caches = st.builds(
    CacheConfig,
    num_blocks=st.sampled_from([6, 14, 30, 300]),
    block_size=st.sampled_from([1, 4, 5]),
    eviction_policy=st.sampled_from(sorted(EVICTION_POLICIES)),
    enable_prefix_caching=st.booleans(),
)
limits = st.builds(
    SchedulerConfig,
    max_num_seqs=st.sampled_from([1, 3, 20]),
    max_num_batched_tokens=st.sampled_from([1, 5, 64]),
    max_model_len=st.sampled_from([20, 1000]),
)


def run(scheduler: Scheduler, requests: list[TimedRequest]) -> Timeline:
    return _Clockwork(requests, scheduler, LATENCY, lambda num_done: None).run()


def state(scheduler: Scheduler) -> list[Any]:
    cache = scheduler.cache
    return [scheduler.stats, cache.stats, cache.tree(), cache.pool.eviction_order(), cache.pool.blank_ids()]


@given(traffic(), caches, limits)
@settings(deadline=None, max_examples=150)
def test_nothing_is_different(requests: list[TimedRequest], cache: CacheConfig, config: SchedulerConfig) -> None:
    ahead, one_by_one = Watched(config, cache), OneByOne(config, cache)
    assert run(ahead, requests) == run(one_by_one, requests)
    assert state(ahead) == state(one_by_one)


@pytest.mark.parametrize("caching", [True, False])
def test_nearly_all_of_a_long_answer_is_taken_at_once(caching: bool) -> None:
    cache = CacheConfig(num_blocks=300, block_size=4, enable_prefix_caching=caching)
    ahead = Watched(SchedulerConfig(max_model_len=1000), cache)
    timeline = run(ahead, [TimedRequest(0, SimulatedRequest(Namespace(""), [1] * 9, 500))] * 2)
    assert timeline.num_steps == ahead.stats.num_steps == 500
    assert ahead.num_at_once == 498  # the first step computes the prompt, the last one ends


def test_twins_that_decode_the_same_share_what_they_write() -> None:
    ahead = Watched(SchedulerConfig(max_model_len=1000), CacheConfig(num_blocks=60, block_size=4))
    run(ahead, [TimedRequest(0, SimulatedRequest(Namespace(""), [1] * 9, 200))] * 2)
    assert ahead.num_at_once > 0
    assert len(ahead.cache.pool.eviction_order()) == (9 + 199) // 4

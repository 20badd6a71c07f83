"""Traces through simulated servers: what is taken from the trace, and what is refused."""

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from anaphora.errors import ConfigError, TraceError
from anaphora.sim.latency import LatencyModel
from anaphora.sim.predict import UNKNOWN_TOKEN_ID
from anaphora.sim.prompt_blocks import PromptBlocks, cut_into_blocks
from anaphora.sim.sweep import RunPlan
from anaphora.sim.timed_sweep import ServerLimits, TimedPlan, TimedSweep, num_distinct
from anaphora.traces.reader import read_trace
from anaphora.traces.request import HashedPrompt, Prompt, TokenPrompt, Trace, TraceRequest

TRACE = Path(__file__).parents[1] / "data" / "traces" / "mooncake_conversation_300.jsonl.gz"
MODEL = LatencyModel(step_ms=10, computed_ms_per_ktoken=20)


def trace_of(*requests: TraceRequest, block_size: int | None = None) -> list[PromptBlocks]:
    return cut_into_blocks(Trace(Path("made"), "made", block_size, len(requests), requests, ()))


def one(prompt: Prompt, arrival_s: float | None = 0.0, **fields: Any) -> TraceRequest:
    return TraceRequest(line=1, arrival_s=arrival_s, prompt=prompt, **fields)


def tokens(ids: Sequence[int]) -> TokenPrompt:
    return TokenPrompt(array("I", ids))


def sweep(prompts: list[PromptBlocks], **options: Any) -> TimedSweep:
    return TimedSweep(prompts, MODEL, ServerLimits(), **options)


def test_requests_are_those_of_the_trace_in_its_time() -> None:
    prompts = trace_of(
        one(tokens(range(20)), 100, num_output_tokens=2, output_token_ids=[7, 8]),
        one(tokens(range(5)), 104, num_output_tokens=3),
        one(tokens(range(5)), 108),
    )
    timed = list(sweep(prompts, rate_scale=2).requests())
    assert [request.arrival_s for request in timed] == [0, 2, 4]
    assert [list(request.asked.prompt_token_ids) for request in timed] == [[*range(20)], [*range(5)], [*range(5)]]
    assert [list(request.asked.output_token_ids) for request in timed] == [
        [7, 8],
        [UNKNOWN_TOKEN_ID] * 3,
        [UNKNOWN_TOKEN_ID],
    ]
    assert sweep(prompts).num_without_output == 1


def test_equal_hashes_are_equal_tokens() -> None:
    prompts = trace_of(
        one(HashedPrompt(array("I", [0, 1, 2]), 10)), one(HashedPrompt(array("I", [0, 3]), 8)), block_size=4
    )
    first, second = (list(request.asked.prompt_token_ids) for request in sweep(prompts).requests())
    assert first == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert second == [0, 0, 0, 0, 3, 3, 3, 3]


def test_a_trace_without_times_has_no_waiting_times() -> None:
    with pytest.raises(TraceError, match="does not tell when its requests came"):
        sweep(trace_of(one(tokens([1]), None)))


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
def test_rates_that_are_none(scale: float) -> None:
    with pytest.raises(ConfigError, match="scaled by a number above 0"):
        sweep(trace_of(one(tokens([1]))), rate_scale=scale)


def test_the_bound_has_no_timeline() -> None:
    with pytest.raises(ConfigError, match="belady knows the order"):
        sweep(trace_of(one(tokens([1])))).timeline(TimedPlan(RunPlan("belady", 4), True))


def test_a_cache_saves_time_and_without_one_the_policy_does_not_matter() -> None:
    prompts = cut_into_blocks(read_trace(TRACE))[:20]
    plans = [TimedPlan(RunPlan(name, 300), caching) for name in ("lru", "fifo") for caching in (True, False)]
    done: list[int] = []
    timings = sweep(prompts).run_all(plans, done.append)
    assert num_distinct(plans) == 3
    assert sum(done) == 3 * 20
    on, off, _, also_off = (timings[plan] for plan in plans)
    assert off == also_off
    assert off["cached_tokens"] == 0 < on["cached_tokens"]
    assert off["ledger"]["bypassed"] == off["prompt_tokens"] == on["prompt_tokens"]
    assert on["busy_s"] < off["busy_s"]


def test_processes_give_what_one_process_gives() -> None:
    prompts = cut_into_blocks(read_trace(TRACE))[:12]
    plans = [TimedPlan(RunPlan("lru", num_blocks), True) for num_blocks in (300, None)]
    alone, spread = (sweep(prompts).run_all(plans, lambda num_done: None, num_jobs=n) for n in (1, 2))
    assert alone == spread


def test_without_bounds_nothing_is_evicted() -> None:
    prompts = cut_into_blocks(read_trace(TRACE))[:20]
    timing = sweep(prompts).run(TimedPlan(RunPlan("lru", None), True), lambda num_done: None)
    assert (timing["evicted_blocks"], timing["preemptions"], timing["refused_requests"]) == (0, 0, 0)

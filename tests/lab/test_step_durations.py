"""Records of the lab as observations of step durations."""

from pathlib import Path
from typing import Any

import pytest

from anaphora.errors import ConfigError
from anaphora.lab.step_durations import observations_of
from anaphora.sim.latency import StepWork, prefill_work
from anaphora.sim.latency_fit import Observation, fit_latency
from anaphora.traces.records import RequestRecord, Run, RunHeader, read_run
from tests.lab.records import SENT_NS, record

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
KEPT = RESULTS / "first-light"
COSTS = RESULTS / "lab" / "costs"


def run_of(*records: RequestRecord) -> Run:
    header = RunHeader(
        run_id="made", started_at="", num_planned_requests=len(records), settings={}, target={}, environment={}
    )
    return Run(header, records)


def usage(num_prompt: int, num_output: int, num_cached: int | None) -> dict[str, object]:
    details = {} if num_cached is None else {"cached_tokens": num_cached}
    return {"prompt_tokens": num_prompt, "completion_tokens": num_output, "prompt_tokens_details": details}


def answered(ttft_ms: float, gap_ms: float, num_output: int = 5, **changes: Any) -> RequestRecord:
    num_gaps = num_output - 1 - (changes.get("finish_reason") == "stop")
    last_ns = SENT_NS + round((ttft_ms + gap_ms * num_gaps) * 1e6)
    return record(ttft_ms=ttft_ms, last_token_ns=last_ns, usage=usage(100, num_output, 96), **changes)


def test_medians_of_what_was_measured_alike() -> None:
    run = run_of(answered(10, 2), answered(12, 4), answered(50, 3), answered(1, 1, phase="warmup"))
    ttft, gap = observations_of(run, token_budget=2048)
    assert (ttft.what, ttft.measured_ms, ttft.num_overheads) == ("switch, on, 100 tokens: TTFT", 12, 1)
    assert ttft.work == prefill_work(100, 96, 2048)
    assert (gap.what, gap.measured_ms, gap.num_overheads) == ("switch, on, 100 tokens: time between tokens", 3, 0)
    assert gap.work == StepWork(1, 1, 1, 102.5, 102.5)


def test_requests_that_computed_otherwise_are_apart() -> None:
    """As in the costs: several endings after one cached prefix, and a prefix that was evicted in between."""
    seen = [(40, 100, 96), (44, 101, 96), (90, 196, 96), (70, 196, 0), (42, 102, 96)]
    records = (record(ttft_ms=ms, usage=usage(prompt, 1, cached)) for ms, prompt, cached in seen)
    observations = observations_of(run_of(*records), token_budget=2048)
    assert [(one.what, one.measured_ms, one.num_requests) for one in observations] == [
        ("switch, on, 100 tokens, 96 cached of 101: TTFT", 42, 3),
        ("switch, on, 100 tokens, 96 cached of 196: TTFT", 90, 1),
        ("switch, on, 100 tokens, 0 cached of 196: TTFT", 70, 1),
    ]
    assert [one.work for one in observations] == [prefill_work(p, c, 2048) for p, c in ((101, 96), (196, 96), (196, 0))]


def test_costs_alone_leave_steps_and_overhead_open_and_with_a_switch_they_do_not() -> None:
    """The kept costs, and times between tokens as on that machine."""
    costs = observations_of(read_run(COSTS), token_budget=2048)
    with pytest.raises(ConfigError, match="overhead_ms, step_ms"):
        fit_latency(costs)
    decoding = Observation("decode", 38, 0, StepWork(1, 1, 1, 512, 512), 8)
    fit = fit_latency([*costs, decoding])
    assert fit.mean_relative_error < 0.15
    assert all(value > 0 for name, value in fit.model.to_json().items() if name.endswith(("token", "pair", "step_ms")))


def test_the_end_of_an_answer_is_a_token_without_text() -> None:
    (_, gap) = observations_of(run_of(answered(10, 2, finish_reason="stop")), token_budget=2048)
    assert gap.measured_ms == 2


def test_first_requests_are_apart_and_long_prompts_take_several_steps() -> None:
    cold = record(phase="first", usage=usage(100, 1, 0))
    (ttft,) = observations_of(run_of(cold), token_budget=40)
    assert ttft.what == "switch, on, 100 tokens, first: TTFT"
    assert ttft.work == prefill_work(100, 0, 40)
    assert ttft.work.num_steps == 3


@pytest.mark.parametrize(
    "useless",
    [
        record(error="timeout"),
        record(usage=usage(100, 1, None)),
        record(streamed=False),
        record(usage=None, num_prompt_tokens=None),
    ],
)
def test_what_says_nothing_is_left_out(useless: RequestRecord) -> None:
    assert observations_of(run_of(useless), token_budget=2048) == []


def test_a_kept_run_determines_every_coefficient() -> None:
    fit = fit_latency(observations_of(read_run(KEPT), token_budget=2048))
    assert fit.mean_relative_error < 0.1
    assert fit.model.step_ms > 0
    assert fit.model.computed_ms_per_ktoken > 0
    assert fit.model.attention_ms_per_mpair > 0

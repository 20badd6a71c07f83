"""A step's duration is a sum that can be worked out by hand, and its coefficients come back out of measurements."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anaphora.errors import ConfigError
from anaphora.kvcache.config import CacheConfig
from anaphora.scheduler.config import SchedulerConfig
from anaphora.scheduler.request import Request
from anaphora.scheduler.scheduler import Scheduler
from anaphora.sim.latency import LatencyModel, StepWork, prefill_work, read_latency_file, work_of
from anaphora.sim.latency_fit import LINEAR, Observation, fit_latency
from anaphora.types import RequestId

TRUE = LatencyModel(
    overhead_ms=3, step_ms=20, computed_ms_per_ktoken=150, read_ms_per_ktoken=2, attention_ms_per_mpair=40
)


DECODES = [StepWork(1, 1, 1, context, context) for context in (300, 1000)]


def test_the_work_of_a_step() -> None:
    scheduler = Scheduler(SchedulerConfig(max_model_len=100, max_num_batched_tokens=10), CacheConfig(num_blocks=8))
    for name, length in (("a", 8), ("b", 5)):
        request = Request(request_id=RequestId(name), prompt_token_ids=[1] * length, max_tokens=2)
        scheduler.add(request)
    first = scheduler.schedule()
    assert first is not None
    # 8 tokens attend to 1 to 8 tokens; 2 of b's attend to 1 and 2
    assert work_of(first) == StepWork(1, 2, 10, 8 + 2, 36 + 3)
    scheduler.update(first, {RequestId("a"): 7})
    second = scheduler.schedule()
    assert second is not None
    # a decodes its 9th token; b's last three attend to 3, 4 and 5
    assert work_of(second) == StepWork(1, 2, 4, 9 + 5, 9 + 12)


def test_the_work_of_a_prompt_in_chunks() -> None:
    assert prefill_work(10, 4, 4) == StepWork(2, 2, 6, 8 + 10, (5 + 6 + 7 + 8) + (9 + 10))
    assert prefill_work(10, 0, 2048) == StepWork(1, 1, 10, 10, 55)


def test_milliseconds_by_hand() -> None:
    model = LatencyModel(
        overhead_ms=1000,
        step_ms=1,
        request_ms=10,
        computed_ms_per_ktoken=100,
        read_ms_per_ktoken=5,
        attention_ms_per_mpair=2,
    )
    work = StepWork(2, 3, 4000, 6000, 7e6)
    assert model.milliseconds(work) == 2 + 30 + 400 + 30 + 14  # the overhead is of requests, not of steps


def test_free_tokens_are_of_each_step() -> None:
    model = LatencyModel(step_ms=40, computed_ms_per_ktoken=2000, free_tokens=4)
    assert model.milliseconds(StepWork(1, 3, 3, 900, 900)) == 40
    assert model.milliseconds(StepWork(1, 6, 6, 900, 900)) == 40 + 4
    assert model.milliseconds(StepWork(2, 2, 3000, 900, 900)) == 80 + 2 * (3000 - 2 * 4)


def made(model: LatencyModel, error: float = 0.0) -> list[Observation]:
    """What the lab would measure: cold prompts and hits of five lengths, and times between tokens."""
    seen: list[Observation] = []
    for number, length in enumerate((284, 537, 1052, 2076, 3100)):
        for num_cached in (0, length // 16 * 16 - 16):
            work = prefill_work(length, num_cached, 2048)
            milliseconds = model.overhead_ms + model.milliseconds(work)
            seen.append(Observation(f"{length}", milliseconds * (1 + error * (-1) ** number), 1, work))
    decode = StepWork(1, 1, 1, 1500, 1500)
    return [*seen, Observation("decode", model.milliseconds(decode), 0, decode)]


def test_a_fit_finds_the_coefficients_that_made_the_measurements() -> None:
    fit = fit_latency(made(TRUE))
    assert fit.model.to_json() == pytest.approx(TRUE.to_json(), rel=1e-6)
    assert fit.mean_relative_error < 1e-9
    assert [one.what for one in fit.residuals] == [one.what for one in made(TRUE)]


def test_a_fit_of_noisy_measurements_says_how_far_off_it_is() -> None:
    fit = fit_latency(made(TRUE, error=0.1))
    values = fit.to_json()
    assert 0.02 < values["mean_relative_error"] < 0.1
    assert values["not_fitted"] == ["request_ms"]
    shown = values["residuals"][0]
    assert shown["percent"] == pytest.approx(100 * (shown["fitted_ms"] / shown["measured_ms"] - 1))
    assert all(value >= 0 for value in fit.model.to_json().values())


@pytest.mark.parametrize("free_tokens", [1.5, 6])
def test_a_fit_finds_free_tokens_where_first_tokens_take_less_than_the_sum(free_tokens: float) -> None:
    true = replace(TRUE, overhead_ms=0, free_tokens=free_tokens)
    seen = [*made(true), *(Observation("", true.milliseconds(one), 0, one) for one in DECODES)]
    fit = fit_latency(seen)
    assert fit.model.to_json() == pytest.approx(true.to_json(), rel=1e-6, abs=1e-9)
    assert fit.mean_relative_error < 1e-9


def test_an_overhead_hides_free_tokens_that_cost_less() -> None:
    """Two tokens of 0.15 ms beside a way of 3 ms: a model of the other sort says the same of every request alone."""
    seen = made(replace(TRUE, free_tokens=2))
    fit = fit_latency(seen)
    assert fit.model.free_tokens == 0
    assert fit.model.overhead_ms == pytest.approx(3 - 0.15, abs=0.01)
    assert fit.mean_relative_error < 1e-4


def test_requests_that_something_else_held_up_do_not_bend_the_model() -> None:
    seen = [one._replace(num_requests=6) for one in made(TRUE, error=0.01)]
    held_up = [one._replace(measured_ms=2 * one.measured_ms, num_requests=1) for one in seen[1:3]]
    assert fit_latency([*seen, *held_up]).model.to_json() == pytest.approx(fit_latency(seen).model.to_json(), rel=0.05)


def test_medians_of_many_requests_count_more() -> None:
    few, many = (one._replace(what=str(n)) for n, one in enumerate((made(TRUE)[-1],) * 2))
    seen = [*made(TRUE)[:-1], few._replace(measured_ms=20), many._replace(measured_ms=24, num_requests=100)]
    assert fit_latency(seen).residuals[-1].fitted_ms == pytest.approx(24, rel=0.02)


def test_no_coefficient_is_negative() -> None:
    """Prompts that cost less the longer they are: the nearest model has no attention at all."""
    seen = [one._replace(measured_ms=one.measured_ms / (1 + one.work.num_read_tokens / 1e3)) for one in made(TRUE)]
    assert min(fit_latency(seen).model.to_json().values()) == 0


@pytest.mark.parametrize(
    ("keep", "missing", "advice"),
    [
        (lambda one: one.num_overheads == 1 and one.work.num_steps == 1, "overhead_ms, step_ms", "bench switch"),
        (lambda one: one.what in ("1052", "decode"), "attention_ms_per_mpair apart", "bench gradient"),
        (lambda one: one.what == "decode", "overhead_ms", "bench switch"),
    ],
)
def test_measurements_that_leave_a_coefficient_open(keep: Any, missing: str, advice: str) -> None:
    with pytest.raises(ConfigError, match=missing) as caught:
        fit_latency([one for one in made(TRUE) if keep(one)])
    assert advice in str(caught.value)


def test_nothing_to_fit() -> None:
    with pytest.raises(ConfigError, match="run `anaphora bench`"):
        fit_latency([])


@pytest.mark.parametrize("wrapped", [True, False])
def test_coefficients_of_a_file(tmp_path: Path, wrapped: bool) -> None:
    path = tmp_path / "latency.json"
    values = {"step_ms": 20, "computed_ms_per_ktoken": 150}
    path.write_text(json.dumps({"coefficients": values, "fit": None} if wrapped else values))
    assert read_latency_file(path) == LatencyModel(step_ms=20, computed_ms_per_ktoken=150)
    assert set(LINEAR) < set(LatencyModel(step_ms=1).to_json())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no JSON file of coefficients"),
        ("[1]", 'must hold an object such as {"step_ms": 20'),
        ('{"step_s": 1}', "'step_s' is no coefficient of a latency model; there are overhead_ms, step_ms"),
        ('{"step_ms": -1}', "step_ms must be a number of milliseconds, not negative, got -1"),
        ('{"step_ms": "20"}', "step_ms must be a number"),
        ('{"step_ms": NaN}', "step_ms must be a number"),
        ('{"overhead_ms": 5}', "a step takes no time by these coefficients"),
        ('{"free_tokens": 5}', "a step takes no time by these coefficients"),
        ('{"free_tokens": -5}', "free_tokens must be a number of tokens, not negative, got -5"),
    ],
)
def test_a_file_that_says_something_else(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "latency.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"latency\.json") as caught:
        read_latency_file(path)
    assert message in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the latency file"):
        read_latency_file(tmp_path / "none.json")

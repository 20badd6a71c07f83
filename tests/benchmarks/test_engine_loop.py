"""The harness of the engine's own thread: what it measures is what a server does, and stages add up."""

from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks.serving import engine_loop
from benchmarks.serving.engine_loop import NUM_STREAMS, Loop, Prompts, decodes, hits, merged, waves
from benchmarks.serving.stages import Stages


def test_a_stage_is_charged_what_it_does_not_spend_in_another(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now_ns=0)
    monkeypatch.setattr("benchmarks.serving.stages.time.perf_counter_ns", lambda: clock.now_ns)

    class Work:
        def outer(self) -> str:
            clock.now_ns += 5
            self.inner()
            clock.now_ns += 2
            return "done"

        def inner(self) -> None:
            clock.now_ns += 70

    monkeypatch.setattr(engine_loop, "Work", Work, raising=False)
    module, stages = engine_loop.__name__, Stages()
    with stages.on((("out", module, "Work.outer"), ("in", module, "Work.inner"), ("gone", module, "Work.removed"))):
        assert Work().outer() == "done"
        clock.now_ns += 1000
        Work().inner()
    Work().outer()
    assert stages.take() == {"out": 7, "in": 140}
    assert stages.take() == {}


@pytest.fixture
def loop() -> Any:
    loop = Loop()
    yield loop
    loop.stop()


def test_each_scenario_is_the_steps_that_it_says(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_loop, "DECODE_TOKENS", 20)
    prompts = Prompts(256)
    assert len(hits(loop, prompts, 3)) == 3
    assert [output.ledger is not None and output.ledger.num_cached_tokens for output in loop.outputs[0]] == [224]
    with loop.stages.on(engine_loop.PLACES):
        samples = waves(loop, prompts, 6)
    assert len(samples) == 2
    assert all(set(stages) == {stage for stage, _, _ in engine_loop.PLACES} for _, stages in samples)
    assert len(decodes(loop, prompts, 1)) == 20 - 4
    assert [len(outputs) for outputs in loop.outputs] == 20 * [NUM_STREAMS]


def test_passes_are_merged_by_the_least_and_the_middle() -> None:
    rows = [
        {
            "scenario": "a hit",
            "least_ms": least,
            "median_ms": 2 * least,
            "stages_least_ms": {"look up": least / 2, "ledger": 1.0},
            "event_loop_encoding_ms": least,
        }
        for least in (3.0, 1.0, 2.0)
    ]
    assert merged(rows) == {
        "scenario": "a hit",
        "least_ms": 1.0,
        "median_ms": 4.0,
        "stages_least_ms": {"look up": 0.5, "ledger": 1.0},
        "event_loop_encoding_ms": 1.0,
    }

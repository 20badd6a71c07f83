"""Off by reset: proved before it is used, done before every request that must miss, predicted to the token."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anaphora.errors import TargetError
from anaphora.lab.address import BaseUrl
from anaphora.lab.arms import Mechanism, Trial
from anaphora.lab.bench import make_header, send
from anaphora.lab.dialects import dialect_named
from anaphora.lab.experiments.gradient import GradientSettings
from anaphora.lab.experiments.switch import SwitchSettings
from anaphora.lab.options import BenchOptions
from anaphora.lab.planning import make_plan
from anaphora.lab.resets import with_resets
from anaphora.lab.results import results_of
from anaphora.lab.resume import rest_of
from anaphora.lab.targets.base import ChatRequest
from anaphora.lab.targets.openai import OpenAITarget
from anaphora.traces.records import RECORDS_FILE, RecordWriter, RequestRecord, Run, read_run
from tests.lab.fake_bench import Listener
from tests.lab.fakes import Canned, FakeServing, FakeTarget, as_json, serving_at
from tests.lab.records import record


def trial(arm: str, index: int, group: int = 1) -> Trial:
    request = ChatRequest(messages=({"role": "user", "content": f"{group}/{index}"},), max_tokens=9)
    return Trial(
        experiment="switch",
        arm=arm,  # type: ignore[arg-type]
        phase="first" if index == 1 else "measured",
        group=group,
        index=index,
        label="why",
        request=request,
    )


def test_what_must_miss_follows_a_reset_and_what_may_hit_follows_what_fills_the_cache() -> None:
    trials = [trial("off", 1), trial("on", 1), trial("on", 2), trial("off", 2), trial("off", 3), trial("on", 3)]
    trials += [trial("on", 1, group=2), trial("on", 2, group=2), trial("on", 4)]
    order = with_resets(trials)
    assert [(t.phase, t.arm, t.group, t.index, t.reset_before) for t in order] == [
        ("first", "off", 1, 1, True),
        ("first", "on", 1, 1, True),
        ("measured", "on", 1, 2, False),
        ("measured", "off", 1, 2, True),
        ("measured", "off", 1, 3, True),
        ("warmup", "on", 1, 2, True),
        ("measured", "on", 1, 3, False),
        ("first", "on", 2, 1, True),
        ("measured", "on", 2, 2, False),
        ("warmup", "on", 1, 3, True),
        ("measured", "on", 1, 4, False),
    ]
    assert [t for t in order if t.phase != "warmup"] == [t for t in order if t.experiment == "switch"]
    assert all(t.request.max_tokens == 1 for t in order if t.phase == "warmup")


def run_reset(serving: FakeServing, folder: Path) -> dict[str, Any]:
    settings = SwitchSettings(prefix_tokens=200, num_questions=7, output_tokens=3)
    lengths = GradientSettings(lengths=(64, 128), repeats=6)
    options = BenchOptions(experiments=(settings, lengths), arms="reset")

    async def go() -> None:
        target = FakeTarget(serving)
        plan = await make_plan(options, target, target, run_id="r", max_model_len=None, note=lambda _: None)
        assert plan.proof.mechanism is Mechanism.RESET
        described: dict[str, Any] = {"kind": "fake", "model": "m", "version": None, "cache_settings": {}}
        with RecordWriter(folder / RECORDS_FILE) as writer:
            writer.begin(make_header(options, plan, described))
            await send(plan, {"main": target}, writer, Listener())

    asyncio.run(go())
    return results_of(read_run(folder))


def test_a_run_by_reset_that_was_cut_short_goes_on_with_what_it_lacks() -> None:
    options = BenchOptions(experiments=(SwitchSettings(prefix_tokens=200, num_questions=7),), arms="reset")
    target = FakeTarget(FakeServing())
    plan = asyncio.run(make_plan(options, target, target, run_id="r", max_model_len=None, note=lambda _: None))
    header = make_header(options, plan, {})
    fillings = [number for number, trial in enumerate(plan.trials) if trial.phase == "warmup"]
    cut = fillings[0] + 2  # behind the first request that only fills the cache again, and one that counts
    done = tuple(planted_record(trial) for trial in plan.trials[:cut])
    stored = replace(header, settings=json.loads(json.dumps(header.settings)))
    rest = rest_of(plan, Run(stored, done), header)
    assert rest.trials == plan.trials[cut:]
    assert rest.expected == plan.expected[cut:]


def planted_record(one: Trial) -> RequestRecord:
    return record(
        experiment=one.experiment, arm=one.arm, phase=one.phase, group=one.group, index=one.index, label=one.label
    )


def test_a_run_by_reset_hits_and_misses_as_meant_and_as_predicted(tmp_path: Path) -> None:
    results = run_reset(FakeServing(), tmp_path)
    checks = {check["name"]: check for check in results["trust"]}
    for name in ("complete", "off requests missed", "on requests hit", "equal prompts"):
        assert checks[name]["status"] == "ok", checks[name]
    assert "a reset of the whole prefix cache before every request" in checks["off requests missed"]["seen"]
    for experiment in results["experiments"].values():
        assert experiment["hit_rate_percent_off"]["usage"] == 0
        assert experiment["hit_rate_percent"]["usage"] == experiment["hit_rate_percent"]["predicted"]
    assert results["experiments"]["switch"]["hit_rate_percent_after_first"]["usage"] > 80
    assert results["experiments"]["gradient"]["rows"][0]["reduction_percent"] > 50


@pytest.mark.parametrize(
    ("serving", "why"),
    [
        (FakeServing(forgets=False), r"the server did not say no, yet \d+ tokens of the same prompt hit after it"),
        (FakeServing(refuses_reset="blocks are in use"), "blocks are in use"),
        (FakeServing(caching=False), "a repeated prompt did not hit"),
        (FakeServing(shows_cached=False, has_metrics=False), "does not tell its cached tokens"),
        (FakeServing(fails=lambda n: "no"), "the target refused a first request: no"),
    ],
)
def test_a_reset_that_cannot_be_proved_is_not_used(serving: FakeServing, why: str, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=why):
        run_reset(serving, tmp_path)


def test_a_reset_that_is_refused_in_the_middle_makes_a_failed_request_and_no_wrong_number(tmp_path: Path) -> None:
    serving = FakeServing()
    real = serving.reset

    def reset() -> str | None:
        return "in use" if 5 <= serving.num_requests <= 6 else real()

    serving.reset = reset  # type: ignore[method-assign]
    results = run_reset(serving, tmp_path)
    assert results["errors"]
    assert all("the cache was not reset before this request: in use" in row["error"] for row in results["errors"])


@pytest.mark.parametrize(
    ("kind", "path", "answer", "refusal"),
    [
        ("anaphora", "/reset_prefix_cache", as_json({"reset": True}), None),
        ("anaphora", "/reset_prefix_cache", as_json({"error": {"message": "2 in use"}}, 409), "HTTP 409: 2 in use"),
        ("vllm", "/reset_prefix_cache?reset_external=true", Canned(writes=(b"",)), None),
        ("vllm", "/reset_prefix_cache?reset_external=true", as_json({"success": True}), None),
        ("vllm", "/reset_prefix_cache?reset_external=true", as_json({"success": False}), "success: false"),
        ("vllm", "/nowhere", Canned(), "it needs VLLM_SERVER_DEV_MODE=1"),
        ("sglang", "/flush_cache", Canned(content_type="text/plain", writes=(b"Cache flushed.",)), None),
        ("sglang", "/flush_cache", Canned(400, "text/plain", (b"requests are running",)), "HTTP 400: requests are"),
        ("openai", "/x", Canned(), "no way to reset the prefix cache of OpenAI is known"),
    ],
)
def test_the_body_decides_whether_a_reset_was_done(kind: str, path: str, answer: Canned, refusal: str | None) -> None:
    async def go() -> str | None:
        async with serving_at({f"POST {path}": lambda *_: answer}) as port:
            base = BaseUrl.parse(f"127.0.0.1:{port}")
            target = OpenAITarget(base, clock=iter(range(1, 9999)).__next__, dialect=dialect_named(kind))
            try:
                return await target.reset_prefix_cache()
            finally:
                await target.close()

    said = asyncio.run(go())
    assert (said is None) if refusal is None else refusal in (said or "")

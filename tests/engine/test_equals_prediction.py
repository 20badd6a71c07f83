"""What the simulator predicts is what the engine does: every ledger, to the token."""

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anaphora.cli import main as cli
from anaphora.engine.engine_core import EngineCore
from anaphora.engine.sampling_params import SamplingParams
from anaphora.engine.startup import load_engine
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.ledger import Ledger, Reason
from anaphora.sim.cache_replay import CacheReplay
from anaphora.sim.latency import LatencyModel
from anaphora.sim.predict import Replay, SimulatedRequest, predict
from anaphora.sim.prompt_blocks import PromptBlocks, cut_into_blocks
from anaphora.sim.sweep import RunPlan
from anaphora.sim.timed_sweep import ServerLimits, TimedPlan, TimedSweep
from anaphora.traces.reader import read_trace
from anaphora.types import Namespace
from tests.engine.harness import config_for, finish, request, tokens

NUM_BLOCKS = 14
TOKEN_BUDGET = 48


@pytest.fixture
def core(tiny_folders: dict[str, Path]) -> EngineCore:
    """Too small for all prefixes of the workload together: some are evicted."""
    config = config_for(tiny_folders["llama3"], num_gpu_blocks_override=NUM_BLOCKS, max_num_batched_tokens=TOKEN_BUDGET)
    return load_engine(config).core


@pytest.fixture
def cache() -> CacheConfig:
    return CacheConfig(num_blocks=NUM_BLOCKS)


def workload(num: int) -> Iterator[tuple[Namespace, tuple[int, ...], int]]:
    """Questions after three system prompts, by two tenants."""
    chance = random.Random(6)
    systems = [tuple(chance.choices(range(3, 400), k=length)) for length in (33, 48, 80)]
    for _ in range(num):
        question = tuple(chance.choices(range(3, 400), k=chance.randrange(1, 40)))
        namespace = Namespace(chance.choice(["", "", "tenant"]))
        yield namespace, chance.choices(systems, [5, 3, 2])[0] + question, chance.randrange(0, 20)


def serve(
    core: EngineCore, name: str, namespace: Namespace, prompt: tuple[int, ...], num: int
) -> tuple[Ledger, tuple[int, ...]]:
    params = SamplingParams(temperature=0, max_tokens=num, ignore_eos=True)
    outputs = finish(core, [request(name, prompt, params, namespace=namespace)])
    ledger = outputs[name][-1].ledger
    assert ledger is not None
    return ledger, tokens(outputs)[name]


def test_one_request_after_another(core: EngineCore, cache: CacheConfig) -> None:
    measured, replayed = [], []
    for index, (namespace, prompt, num) in enumerate(workload(60), 1):
        ledger, generated = serve(core, f"replayed-{index}", namespace, prompt, num)
        measured.append(ledger)
        replayed.append((namespace, prompt, generated))
    assert measured == predict(replayed, cache)
    total = {reason: sum(ledger.counts.get(reason, 0) for ledger in measured) for reason in Reason}
    for reason in (Reason.REUSED_DEVICE, Reason.EVICTED, Reason.ISOLATED, Reason.DIVERGED, Reason.NEW, Reason.TAIL):
        assert total[reason] > 0, reason
    stats = core.stats()
    assert stats.tokens_by_reason == {reason: num for reason, num in total.items() if num}
    assert stats.num_evicted_blocks > 0


def test_all_at_once(core: EngineCore, cache: CacheConfig) -> None:
    """Also when requests wait, share blocks in flight, and are preempted."""
    requests = [(Namespace("same"), prompt, num) for _, prompt, num in workload(12)]
    for index, (namespace, prompt, num) in enumerate(requests, 1):
        params = SamplingParams(temperature=0, max_tokens=num, ignore_eos=True)
        core.add(request(f"replayed-{index}", prompt, params, namespace=namespace))
    outputs = finish(core)
    names = [f"replayed-{index}" for index in range(1, len(requests) + 1)]
    generated = tokens(outputs)
    replay = Replay(cache, core.scheduler.config)
    predicted = replay.run_together(
        SimulatedRequest(namespace, prompt, generated[name])
        for name, (namespace, prompt, _) in zip(names, requests, strict=True)
    )
    assert [outputs[name][-1].ledger for name in names] == predicted
    assert core.stats().num_preemptions == replay.scheduler.stats.num_preemptions > 0


Served = tuple[Namespace, tuple[int, ...], tuple[int, ...]]
"""Namespace, prompt, and what the engine generated."""


def trace_of(path: Path, served: Iterable[Served]) -> list[PromptBlocks]:
    """The workload as a file that `anaphora simulate` reads, and read back; all requests come at once."""
    rows = [
        {"token_ids": prompt, "output_token_ids": generated, "namespace": namespace, "timestamp": 0}
        for namespace, prompt, generated in served
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return cut_into_blocks(read_trace(path), 16)


def simulated(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> dict[str, Any]:
    argv = ["simulate", str(path), "--capacity", str(NUM_BLOCKS), "--policy", "lru", "--json", *options]
    assert cli.run(argv) == 0
    run: dict[str, Any] = json.loads(capsys.readouterr().out)["runs"][0]
    return run


def test_a_trace_of_one_after_another(core: EngineCore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The engine's workload as a trace file, through what `anaphora simulate` runs: every ledger, and the rates."""
    measured: list[Ledger] = []
    served: list[Served] = []
    for index, (namespace, prompt, num) in enumerate(workload(60), 1):
        ledger, generated = serve(core, f"replayed-{len(served) + 1}", namespace, prompt, num)
        measured.append(ledger)
        served.append((namespace, prompt, generated))
        if index % 3 == 0 and len(prompt) < 70:  # a turn that continues what was generated
            follow_up = (*prompt, *generated, 5, 6, 7)
            ledger, generated = serve(core, f"replayed-{len(served) + 1}", namespace, follow_up, 3)
            measured.append(ledger)
            served.append((namespace, follow_up, generated))
    replay = CacheReplay(CacheConfig(num_blocks=NUM_BLOCKS))
    prompts = trace_of(tmp_path / "trace.jsonl", served)
    assert list(map(replay.ask, prompts)) == measured
    stats = core.stats()
    run = simulated(capsys, tmp_path / "trace.jsonl")
    assert run["cached_tokens"] == stats.num_cached_tokens > 0
    assert run["evicted_blocks"] == stats.num_evicted_blocks > 0
    assert {name: num for name, num in run["ledger"].items() if num} == dict(stats.tokens_by_reason)


def test_a_trace_of_all_at_once(core: EngineCore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also when requests wait, share blocks in flight, and are preempted: through the simulator's second level."""
    asked = [(Namespace("same"), prompt, num) for _, prompt, num in workload(12)]
    for index, (namespace, prompt, num) in enumerate(asked, 1):
        params = SamplingParams(temperature=0, max_tokens=num, ignore_eos=True)
        core.add(request(f"replayed-{index}", prompt, params, namespace=namespace))
    outputs = finish(core)
    names = [f"replayed-{index}" for index in range(1, len(asked) + 1)]
    generated = tokens(outputs)
    served = [(namespace, prompt, generated[name]) for name, (namespace, prompt, _) in zip(names, asked, strict=True)]
    prompts = trace_of(tmp_path / "trace.jsonl", served)
    limits = ServerLimits(max_num_batched_tokens=TOKEN_BUDGET)
    sweep = TimedSweep(prompts, LatencyModel(step_ms=1), limits)
    timeline = sweep.timeline(TimedPlan(RunPlan("lru", NUM_BLOCKS), True))
    assert [one.ledger for one in timeline.requests] == [outputs[name][-1].ledger for name in names]
    stats = core.stats()
    assert timeline.num_preemptions == stats.num_preemptions > 0
    assert timeline.num_recomputed_tokens == stats.num_recomputed_tokens > 0
    assert timeline.num_evicted_blocks == stats.num_evicted_blocks > 0
    assert timeline.num_steps == stats.num_steps
    coefficients = tmp_path / "latency.json"
    coefficients.write_text('{"step_ms": 1}')
    run = simulated(
        capsys,
        tmp_path / "trace.jsonl",
        "--latency",
        str(coefficients),
        "--max-num-batched-tokens",
        str(TOKEN_BUDGET),
    )
    on = run["timing"]["on"]
    assert {name: num for name, num in on["ledger"].items() if num} == dict(stats.tokens_by_reason)
    assert (on["steps"], on["preemptions"], on["busy_s"]) == (
        stats.num_steps,
        stats.num_preemptions,
        pytest.approx(0.001 * stats.num_steps),
    )

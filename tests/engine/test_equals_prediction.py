"""What the simulator predicts is what the engine does: every ledger, to the token."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from anaphora.engine.engine_core import EngineCore
from anaphora.engine.sampling_params import SamplingParams
from anaphora.engine.startup import load_engine
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.ledger import Ledger, Reason
from anaphora.sim.predict import Replay, SimulatedRequest, predict
from anaphora.types import Namespace
from tests.engine.harness import config_for, finish, request, tokens

NUM_BLOCKS = 14


@pytest.fixture
def core(tiny_folders: dict[str, Path]) -> EngineCore:
    """Too small for all prefixes of the workload together: some are evicted."""
    config = config_for(tiny_folders["llama3"], num_gpu_blocks_override=NUM_BLOCKS, max_num_batched_tokens=48)
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

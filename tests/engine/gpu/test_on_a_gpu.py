"""A real GPU: captured steps against eager ones, hits against cold prompts, and the same schedules as on the CPU.

``pytest -m gpu`` runs these and nothing else. What needs no GPU to be seen (plans, kernels, the runner's order of
things) is tested without one.
"""

import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from anaphora.engine import LLM, SamplingParams
from anaphora.engine.startup import load_engine
from anaphora.errors import ConfigError
from tests.engine.gpu.schedules import LIMITS, play
from tests.engine.harness import config_for

pytestmark = [pytest.mark.gpu, pytest.mark.real_model]

STORY = "Once upon a time a fox and a heron lived beside a river that was wide and slow. " * 12
CHATS = [[{"role": "user", "content": f"{STORY}{question}"}] for question in ("Who?", "Where did they live?")]
PARAMS = SamplingParams(temperature=0, max_tokens=24)


def answers(llm: LLM) -> list[tuple[int, ...]]:
    return [tuple(result.token_ids) for result in llm.chat(CHATS, PARAMS)]


def on_gpu(**options: Any) -> LLM:
    gc.collect()
    torch.cuda.empty_cache()
    return LLM(device="cuda", gpu_memory_utilization=0.5, max_model_len=2048, **options)


def test_batch_invariant_answers_are_the_same_cold_and_hit_captured_and_eager() -> None:
    found = []
    for eager in (False, True):
        with on_gpu(deterministic=True, enforce_eager=eager) as llm:
            found += [answers(llm), answers(llm)]
            assert all(result.num_cached_tokens > 100 for result in llm.chat(CHATS, PARAMS))
    assert all(each == found[0] for each in found)
    assert all(len(answer) > 4 for answer in found[0])


def test_requests_in_one_batch_get_what_they_get_alone() -> None:
    with on_gpu(deterministic=True) as llm:
        together = answers(llm)
        assert llm.reset_prefix_cache()
        alone = [tuple(llm.chat(chat, PARAMS)[0].token_ids) for chat in CHATS]
    assert together == alone


def test_passes_begun_behind_one_another_give_what_requests_get_alone() -> None:
    """Each is launched before the host knows the tokens of the one before."""
    chats = [[{"role": "user", "content": f"{STORY}Question {number}: who?"}] for number in range(24)]
    with on_gpu(deterministic=True, target_prefill_tokens=64) as llm:
        core: Any = llm._core
        scheduler = core.scheduler
        extend, passes = scheduler.extend, list[Any]()

        def noting() -> Any:
            passes.append(extend())
            return passes[-1]

        scheduler.extend = noting
        first = [tuple(llm.chat(chats[0], PARAMS)[0].token_ids)]
        together = [tuple(result.token_ids) for result in llm.chat(chats, PARAMS)]
        assert sum(output is not None for output in passes) > 1
        alone = [tuple(llm.chat(chat, PARAMS)[0].token_ids) for chat in chats]
    assert together == alone
    assert first == alone[:1]


@pytest.mark.parametrize("architecture", ["llama3", "qwen3"])
def test_same_tokens_ledgers_and_counts_as_on_the_cpu(architecture: str, tiny_folders: dict[str, Path]) -> None:
    config = config_for(tiny_folders[architecture], **LIMITS)
    on_cpu = load_engine(config).core
    on_gpu = load_engine(replace(config, device="cuda", dtype="float32")).core
    for seed in range(3):
        assert play(on_gpu, seed) == play(on_cpu, seed)
    assert on_gpu.stats() == on_cpu.stats()
    assert on_gpu.stats().num_cached_tokens > 100


def test_what_does_not_fit_is_told() -> None:
    with pytest.raises(ConfigError, match="does not fit"):
        LLM(device="cuda", gpu_memory_utilization=0.001)

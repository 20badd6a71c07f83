"""The whole matrix on the real model: 40 prompts, 64 tokens each, in every arm; counts go to the results folder."""

import json
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from anaphora.checkpoints.checkpoint import Checkpoint, find_checkpoint
from anaphora.cores import num_usable_cores
from anaphora.engine.engine_core import EngineCore
from anaphora.engine.sampling_params import SamplingParams
from anaphora.engine.startup import load_engine
from anaphora.tokenizer.tokenizer import Tokenizer
from tests.engine.harness import config_for, finish, request, tokens
from tests.engine.oracle import Comparison, Oracle

pytestmark = [pytest.mark.soak, pytest.mark.real_model]

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "soak" / "engine_equals_transformers.json"
NUM_TOKENS = 64
PARAMS = SamplingParams(temperature=0.0, max_tokens=NUM_TOKENS, ignore_eos=True)
Tokens = tuple[int, ...]

SYSTEMS = (
    "You are a helpful assistant.",
    "You are a patient teacher. Explain every word that a child of ten may not know, and give one example from the "
    "kitchen, one from the garden and one from the sky before you come to the point.",
    "You answer as the harbour master of a small town. "
    + "The tide is noted every hour, and every boat has a name. " * 12,
    "You are a careful programmer. " + "Read the question twice, name the edge cases, and only then write code. " * 25,
)
QUESTIONS = (
    "What is the capital of France?",
    "Write one sentence about the sea.",
    "Why is the sky blue?",
    "List three fruits and their colours.",
    "Translate 'good morning' into Spanish.",
    "How do I sort a list of names in Python?",
    "Tell me a very short story about a fox.",
    "What does a prefix cache do?",
    "Count from one to ten.",
    "Who was Ada Lovelace, and what is she remembered for?",
)


def alone(core: EngineCore, prompts: dict[str, Tokens]) -> dict[str, Tokens]:
    results: dict[str, Tokens] = {}
    for name, prompt in prompts.items():
        results |= tokens(finish(core, [request(name, prompt, PARAMS)]))
    return results


def batched(core: EngineCore, prompts: dict[str, Tokens]) -> dict[str, Tokens]:
    return tokens(finish(core, [request(name, prompt, PARAMS) for name, prompt in prompts.items()]))


def hit_alone(core: EngineCore, prompts: dict[str, Tokens]) -> dict[str, Tokens]:
    batched(core, prompts)
    return alone(core, prompts)


def hit_batched(core: EngineCore, prompts: dict[str, Tokens]) -> dict[str, Tokens]:
    batched(core, prompts)
    return batched(core, prompts)


ARMS: dict[str, tuple[Callable[[EngineCore, dict[str, Tokens]], dict[str, Tokens]], dict[str, Any]]] = {
    "off, alone": (alone, {"enable_prefix_caching": False}),
    "off, batched": (batched, {"enable_prefix_caching": False}),
    "cold, batched": (batched, {}),
    "hit, alone": (hit_alone, {}),
    "hit, batched": (hit_batched, {}),
    "chunks of 61, cold and hit": (hit_batched, {"max_num_batched_tokens": 61}),
    "preempted": (batched, {"num_gpu_blocks_override": 90, "enable_prefix_caching": False}),
    "preempted, caching, chunks of 97": (batched, {"num_gpu_blocks_override": 60, "max_num_batched_tokens": 97}),
}


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return find_checkpoint()


@pytest.fixture(scope="module")
def prompts(checkpoint: Checkpoint) -> dict[str, Tokens]:
    tokenizer = Tokenizer.from_folder(checkpoint.path)
    chats = [
        [{"role": "system", "content": system}, {"role": "user", "content": question}]
        for system in SYSTEMS
        for question in QUESTIONS
    ]
    return {str(index): tuple(tokenizer.encode_chat(chat)) for index, chat in enumerate(chats)}


@pytest.fixture(scope="module")
def compare(checkpoint: Checkpoint) -> Callable[[Tokens, Tokens], Comparison]:
    """The judge; equal texts are judged once."""
    return cache(Oracle(checkpoint.path).compare)


@pytest.fixture(scope="module")
def arms() -> Iterator[dict[str, dict[str, int]]]:
    """Counts by arm, written down when all are there."""
    counts: dict[str, dict[str, int]] = {}
    yield counts
    if set(counts) == set(ARMS):
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps({**_facts(), "arms": counts}, indent=2) + "\n", "utf-8")


@pytest.mark.parametrize("arm", ARMS)
def test_greedy_tokens_equal_those_of_transformers(
    arm: str,
    checkpoint: Checkpoint,
    prompts: dict[str, Tokens],
    compare: Callable[[Tokens, Tokens], Comparison],
    arms: dict[str, dict[str, int]],
) -> None:
    generate, options = ARMS[arm]
    config = config_for(checkpoint.path, **{"kv_cache_memory_bytes": 2**30, "num_threads": None} | options)
    core = load_engine(config, checkpoint).core
    counts = Comparison()
    for name, generated in generate(core, prompts).items():
        assert len(generated) == NUM_TOKENS
        counts.add(compare(prompts[name], generated))
    stats = core.stats()
    arms[arm] = asdict(counts) | {
        "num_cached_tokens": stats.num_cached_tokens,
        "num_preemptions": stats.num_preemptions,
        "num_steps": stats.num_steps,
    }
    assert counts.num_tokens == len(prompts) * NUM_TOKENS
    assert counts.num_divergences == 0
    assert counts.num_near_ties <= counts.num_tokens / 10_000
    assert (stats.num_cached_tokens > 0) == config.enable_prefix_caching
    assert (stats.num_preemptions > 0) == (config.num_gpu_blocks_override is not None)


def _facts() -> dict[str, Any]:
    return {
        "model": "SmolLM2-135M-Instruct, float32",
        "num_prompts": len(SYSTEMS) * len(QUESTIONS),
        "num_tokens_per_prompt": NUM_TOKENS,
        "near_tie": "not the judge's first token, but less than 1e-4 below its logit",
        "environment": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "machine": platform.machine(),
            "num_threads": num_usable_cores(),
            "num_cores": os.cpu_count(),
        },
    }

"""Greedy output equals ``transformers`` in float32, token for token, whatever the cache, batch, chunks and pool."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from anaphora.engine.engine_core import EngineCore
from anaphora.engine.sampling_params import SamplingParams
from anaphora.engine.startup import load_engine
from tests.engine.harness import config_for, finish, request, tokens
from tests.engine.oracle import Comparison, Oracle
from tests.models_for_tests import ARCHITECTURES

NUM_TOKENS = 12
GREEDY = SamplingParams(temperature=0.0, max_tokens=NUM_TOKENS, ignore_eos=True)
LENGTHS = (1, 15, 16, 17, 32, 49, 70)
"""Around the borders of blocks of 16. All but the first share a beginning with the others."""


def prompts() -> dict[str, tuple[int, ...]]:
    generator = torch.Generator().manual_seed(4)
    whole = torch.randint(3, 400, (100,), generator=generator).tolist()
    return {f"{length}": (*whole[: length - 1], 3 + length) for length in LENGTHS}


def alone(core: EngineCore, prompts: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    results: dict[str, tuple[int, ...]] = {}
    for name, prompt in prompts.items():
        results |= tokens(finish(core, [request(name, prompt, GREEDY)]))
    return results


def batched(core: EngineCore, prompts: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    return tokens(finish(core, [request(name, prompt, GREEDY) for name, prompt in prompts.items()]))


def twice(core: EngineCore, prompts: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The second time, from the cache."""
    batched(core, prompts)
    before = core.stats().num_cached_tokens
    results = batched(core, prompts)
    assert core.stats().num_cached_tokens - before == sum((length - 1) // 16 * 16 for length in LENGTHS)
    return results


def squeezed(core: EngineCore, prompts: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """In a pool that holds one of the longer prompts and no two."""
    results = batched(core, prompts)
    assert core.stats().num_preemptions > 0
    return results


ARMS: dict[str, tuple[Callable[..., dict[str, tuple[int, ...]]], dict[str, Any]]] = {
    "off-alone": (alone, {"enable_prefix_caching": False}),
    "off-batched": (batched, {"enable_prefix_caching": False}),
    "cold-batched": (batched, {}),
    "alone": (alone, {}),
    "hit": (twice, {}),
    "chunks-of-5": (batched, {"max_num_batched_tokens": 5}),
    "chunks-of-23-hit": (twice, {"max_num_batched_tokens": 23}),
    "preempted": (squeezed, {"num_gpu_blocks_override": 7, "enable_prefix_caching": False}),
    "preempted-caching": (squeezed, {"num_gpu_blocks_override": 7, "max_num_batched_tokens": 19}),
}


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_greedy_tokens_equal_those_of_transformers(
    architecture: str,
    arm: str,
    tiny_folders: dict[str, Path],
    oracles: Callable[[str], Oracle],
    comparison: Comparison,
) -> None:
    generate, options = ARMS[arm]
    core = load_engine(config_for(tiny_folders[architecture], **options)).core
    own = Comparison()
    for name, generated in generate(core, prompts()).items():
        assert len(generated) == NUM_TOKENS
        own.add(oracles(architecture).compare(prompts()[name], generated))
    assert (own.num_tokens, own.num_divergences) == (len(LENGTHS) * NUM_TOKENS, 0)
    comparison.add(own)

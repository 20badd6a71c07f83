"""Tiny models of each architecture: ours and, as the oracle, transformers' (float32, same folder)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from transformers import AutoModelForCausalLM

from anaphora.checkpoints.config_reader import read_model_config
from anaphora.models.causal_lm import CausalLM
from anaphora.models.loader import load_model
from tests.models_for_tests import ARCHITECTURES, tiny_checkpoint
from tests.models_for_tests.tiny_checkpoint import Architecture

CASES: dict[str, tuple[Architecture, dict[str, Any]]] = {name: (name, {}) for name in ARCHITECTURES} | {
    "llama-biases": ("llama-yarn", {"attention_bias": True, "mlp_bias": True}),
    "llama-linear": ("llama-yarn", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
    "llama-one-kv-head": ("llama3", {"num_key_value_heads": 1}),
    "llama-no-groups": ("llama3", {"num_key_value_heads": 4}),
}


@dataclass(frozen=True)
class Pair:
    """Our model and the oracle's."""

    folder: Path

    @cached_property
    def ours(self) -> CausalLM:
        return load_model(self.folder, read_model_config(self.folder))

    @cached_property
    def oracle(self) -> Any:
        return AutoModelForCausalLM.from_pretrained(self.folder, dtype=torch.float32)  # already in evaluation mode

    def oracle_logits(self, token_ids: list[int]) -> torch.Tensor:
        """``[T, vocab_size]``: logits after each token, all computed at once without a cache."""
        with torch.no_grad():
            return cast(torch.Tensor, self.oracle(torch.tensor([token_ids]), use_cache=False).logits[0])


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Products this small only lose by being shared out among threads."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


@pytest.fixture(scope="session")
def pair_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Pair]:
    """The pair of a case, made once a session."""
    made: dict[str, Pair] = {}

    def get(case: str) -> Pair:
        if case not in made:
            architecture, overrides = CASES[case]
            made[case] = Pair(tiny_checkpoint(tmp_path_factory.mktemp(case), architecture, **overrides))
        return made[case]

    return get


@pytest.fixture(params=CASES)
def pair(request: pytest.FixtureRequest, pair_of: Callable[[str], Pair]) -> Pair:
    """Each case in turn."""
    return pair_of(request.param)


@pytest.fixture
def llama(pair_of: Callable[[str], Pair]) -> Pair:
    """One case, for what does not depend on the architecture."""
    return pair_of("llama3")

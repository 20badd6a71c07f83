"""Rotations equal transformers' cosines and sines, for each kind of scaling and each of its options."""

from typing import Any

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from anaphora.checkpoints.config_reader import read_model_config
from anaphora.models.rotary import Rotary, interleave_heads, rotate
from tests.models_for_tests import tiny_checkpoint

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
LLAMA3 = {"rope_type": "llama3", "original_max_position_embeddings": 64}
SCALINGS: list[dict[str, Any] | None] = [
    None,
    {"rope_type": "linear", "factor": 4.0},
    LLAMA3 | {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    LLAMA3 | {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 2.0},
    YARN,
    YARN | {"truncate": False},
    YARN | {"attention_factor": 1.5},
    YARN | {"beta_fast": 16.0, "beta_slow": 2.0},
    YARN | {"mscale": 1.0, "mscale_all_dim": 0.8},
    YARN | {"beta_fast": 2.0, "beta_slow": 2.0, "truncate": False},
]


@pytest.mark.parametrize("scaling", SCALINGS, ids=str)
def test_equals_transformers(scaling: dict[str, Any] | None, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tiny_checkpoint(tmp_path_factory.mktemp("rope"), "llama-yarn", rope_scaling=scaling, head_dim=32)
    positions = torch.tensor([0, 1, 2, 63, 64, 200, 511])
    rotations = Rotary(read_model_config(folder)).rotations(positions)
    oracle = LlamaRotaryEmbedding(LlamaConfig.from_pretrained(folder))
    cosines, sines = oracle(torch.zeros(1), positions[None])
    assert rotations.shape == (7, 1, 16)
    torch.testing.assert_close(rotations.real[:, 0], cosines[0, :, :16], rtol=0, atol=1e-6)
    torch.testing.assert_close(rotations.imag[:, 0], sines[0, :, :16], rtol=0, atol=1e-6)


def test_pairs_lie_side_by_side() -> None:
    assert interleave_heads(torch.arange(8), head_dim=4).tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
    assert interleave_heads(torch.arange(8).view(4, 2), head_dim=4)[:, 0].tolist() == [0, 4, 2, 6]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_quarter_turn_in_place(dtype: torch.dtype) -> None:
    heads = torch.tensor([[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]]).to(dtype)
    rotate(heads[:, :1], torch.tensor([[[1j, 1.0]]]))
    assert heads.tolist() == [[[-2.0, 1.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]]

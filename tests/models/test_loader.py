"""What is refused at load, by name; what is ignored knowingly; shards; dummy weights."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from anaphora.checkpoints.config_reader import read_model_config
from anaphora.errors import CheckpointError
from anaphora.models.causal_lm import CausalLM
from anaphora.models.loader import load_model
from tests.models.batches import BLOCK_SIZE, Piece, forward_batch
from tests.models_for_tests import tiny_checkpoint

Tensors = dict[str, torch.Tensor]
DOWN = "model.layers.1.mlp.down_proj.weight"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_checkpoint(tmp_path / "model", "llama3")


def load(folder: Path) -> CausalLM:
    return load_model(folder, read_model_config(folder))


def rewrite(folder: Path, change: Callable[[Tensors], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def split_into_shards(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in shards.items():
        save_file({name: tensors[name] for name in part}, folder / file)
    weight_map = {name: file for file, part in shards.items() for name in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def logits_of(model: CausalLM) -> torch.Tensor:
    return model.forward(forward_batch([Piece([5, 6, 7, 8, 9], 0, 5, [0, 1])]), model.new_kv_cache(2, BLOCK_SIZE))


def test_shards_give_the_same_model(folder: Path) -> None:
    expected = logits_of(load(folder))
    split_into_shards(folder)
    assert torch.equal(logits_of(load(folder)), expected)


def test_a_missing_tensor_is_named(folder: Path) -> None:
    rewrite(folder, lambda tensors: tensors.pop(DOWN))
    with pytest.raises(CheckpointError, match=f"lacks the tensor {DOWN}"):
        load(folder)


def test_unexpected_tensors_are_named(folder: Path) -> None:
    rewrite(folder, lambda tensors: tensors.update({"model.extra": torch.ones(1), "score.weight": torch.ones(1)}))
    with pytest.raises(CheckpointError, match=r"unexpected tensor model\.extra and 1 more"):
        load(folder)


def test_a_tensor_of_another_shape_is_named_with_both_shapes(folder: Path) -> None:
    rewrite(folder, lambda tensors: tensors.update({DOWN: torch.ones(64, 95)}))
    with pytest.raises(CheckpointError, match=rf"{DOWN} in .* has shape \[64, 95\], config.json means \[64, 96\]"):
        load(folder)


def test_rotary_frequencies_and_a_tied_head_are_ignored(folder: Path) -> None:
    expected = logits_of(load(folder))
    extra = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8), "lm_head.weight": torch.ones(400, 64)}
    rewrite(folder, lambda tensors: tensors.update(extra))
    assert torch.equal(logits_of(load(folder)), expected)


def test_a_folder_without_weights(tmp_path: Path, folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"neither model\.safetensors nor"):
        load(folder)


@pytest.mark.parametrize("content", [b"", b"\x08\0\0\0\0\0\0\0notjson!", b"\xff" * 64])
def test_a_damaged_file(folder: Path, content: bytes) -> None:
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match="cannot be read"):
        load(folder)


def test_a_truncated_file(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="cannot be read"):
        load(folder)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": 3}}'])
def test_a_damaged_index(folder: Path, content: str) -> None:
    (folder / "model.safetensors.index.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"index.json is damaged"):
        load(folder)


def test_a_missing_shard(folder: Path) -> None:
    split_into_shards(folder)
    (folder / "b.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"names b\.safetensors, which is not in"):
        load(folder)


def test_an_index_that_names_the_wrong_shard(folder: Path) -> None:
    split_into_shards(folder)
    index = folder / "model.safetensors.index.json"
    index.write_text(index.read_text().replace("a.safetensors", "b.safetensors"))
    with pytest.raises(CheckpointError, match=r"b.safetensors cannot be read \(model\."):
        load(folder)


def test_dummy_weights_need_no_file_and_are_always_the_same(folder: Path) -> None:
    config = read_model_config(folder)
    first, second = (load_model(Path("nowhere"), config, load_format="dummy") for _ in range(2))
    assert torch.equal(logits_of(first), logits_of(second))
    assert float(logits_of(first).std()) > 0


def test_progress_counts_tensors(folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    load_model(folder, read_model_config(folder), progress=lambda done, total: seen.append((done, total)))
    num_tensors = len(load_file(folder / "model.safetensors"))
    assert [done for done, _ in seen] == [*range(1, num_tensors + 1), num_tensors]  # the tied embedding comes twice
    assert {total for _, total in seen} == {num_tensors}


def test_weights_stored_in_half_precision(folder: Path) -> None:
    expected = logits_of(load(folder))
    rewrite(folder, lambda tensors: tensors.update({name: t.bfloat16() for name, t in tensors.items()}))
    torch.testing.assert_close(logits_of(load(folder)), expected, rtol=0.1, atol=0.3)

import json
from pathlib import Path

import pytest
from tests.models_for_tests import tiny_checkpoint

from anaphora.checkpoints import find_checkpoint, weight_files
from anaphora.errors import CheckpointError


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_checkpoint(tmp_path / "Tiny-Llama")


def test_a_folder_is_used_where_it_lies(model: Path) -> None:
    checkpoint = find_checkpoint(str(model))
    assert (checkpoint.name, checkpoint.path) == ("Tiny-Llama", model)
    assert checkpoint.config.architecture == "LlamaForCausalLM"


def test_a_relative_path_has_the_name_of_its_folder(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(model)
    checkpoint = find_checkpoint(".")
    assert (checkpoint.name, checkpoint.path) == ("Tiny-Llama", model)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_missing_file_is_named(model: Path, name: str) -> None:
    (model / name).unlink()
    with pytest.raises(CheckpointError, match=name):
        find_checkpoint(str(model))


def test_pickled_weights_are_never_loaded(model: Path) -> None:
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"only safetensors .* pytorch_model\.bin is pickled"):
        find_checkpoint(str(model))
    (model / "pytorch_model.bin").unlink()
    with pytest.raises(CheckpointError, match=r"has no \*\.safetensors$"):
        find_checkpoint(str(model))


def test_a_folder_with_only_a_gguf_file_names_it(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").touch()
    with pytest.raises(CheckpointError, match=r"name the file itself, .*/model\.gguf$"):
        find_checkpoint(str(tmp_path))


class TestWeightFiles:
    def test_what_lies_beside_the_weights_is_not_the_model(self, model: Path) -> None:
        (model / "adapter_model.safetensors").touch()
        assert weight_files(model) == [model / "model.safetensors"]

    def test_an_index_names_the_files(self, model: Path) -> None:
        for name in ("b.safetensors", "a.safetensors", "other.safetensors"):
            (model / name).touch()
        index = {"weight_map": {"x": "b.safetensors", "y": "a.safetensors", "z": "b.safetensors"}}
        (model / "model.safetensors.index.json").write_text(json.dumps(index))
        assert weight_files(model) == [model / "a.safetensors", model / "b.safetensors"]
        (model / "b.safetensors").unlink()
        with pytest.raises(CheckpointError, match=r"b\.safetensors is missing"):
            find_checkpoint(str(model))

    def test_without_an_index_and_the_usual_name_every_file_counts(self, tmp_path: Path) -> None:
        for name in ("b.safetensors", "a.safetensors"):
            (tmp_path / name).touch()
        assert [file.name for file in weight_files(tmp_path)] == ["a.safetensors", "b.safetensors"]

    def test_an_index_cannot_point_out_of_the_folder(self, model: Path) -> None:
        index = {"weight_map": {"x": "../../etc/passwd.safetensors"}}
        (model / "model.safetensors.index.json").write_text(json.dumps(index))
        with pytest.raises(CheckpointError, match=r"Tiny-Llama: passwd\.safetensors is missing"):
            weight_files(model)

    @pytest.mark.parametrize("index", [{}, {"weight_map": []}, {"weight_map": {"x": 1}}])
    def test_a_damaged_index(self, model: Path, index: object) -> None:
        (model / "model.safetensors.index.json").write_text(json.dumps(index))
        with pytest.raises(CheckpointError, match="is damaged: it has no weight_map"):
            weight_files(model)


@pytest.mark.parametrize("model_name", ["nosuch", "/no/such/folder", "./x/y", "./x", "../x", "a/b/c", "x/y.gguf", ""])
def test_what_is_neither_a_path_nor_a_name_on_the_hub(model_name: str) -> None:
    with pytest.raises(CheckpointError, match=r"no such folder or file, and no name on the hub \(owner/name\)"):
        find_checkpoint(model_name)

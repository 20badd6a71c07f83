"""A GGUF file written from a tiny model folder becomes that folder again."""

import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
import transformers
from gguf import GGMLQuantizationType
from safetensors.numpy import load_file
from tests.models_for_tests import tiny_checkpoint, write_tiny_gguf

from anaphora.checkpoints import find_checkpoint, find_model_config
from anaphora.checkpoints.gguf_conversion import convert_gguf
from anaphora.checkpoints.progress import silent
from anaphora.errors import CheckpointError

Write = Callable[..., Path]
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def llama3_divisors(factor: float = 8.0) -> np.ndarray[Any, np.dtype[np.float32]]:
    """As llama.cpp's converter stores Llama 3's rope scaling, for heads of 16 and base 500 000, by its rule."""
    divisors = []
    for frequency in 500000.0 ** -(np.arange(0, 16, 2) / 16):
        wavelength = 2 * np.pi / frequency
        if wavelength < 8192 / 4:
            divisors.append(1.0)
        elif wavelength > 8192 / 1:
            divisors.append(factor)
        else:
            smooth = (8192 / wavelength - 1) / (4 - 1)
            divisors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(divisors, np.float32)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Makes a tiny model folder ``original`` and its GGUF file, whose path it returns."""

    def write(architecture: Any = "llama-yarn", metadata: Any = None, **options: Any) -> Path:
        keys = {"rope_scaling": None} if architecture == "llama-yarn" else {}
        quantization = options.pop("quantization", GGMLQuantizationType.F32)
        extra_tensors = options.pop("extra_tensors", None)
        original = tiny_checkpoint(tmp_path / "original", architecture, num_hidden_layers=2, **(keys | options))
        file = tmp_path / "Tiny-Model.gguf"
        return write_tiny_gguf(
            file, original, quantization=quantization, metadata=metadata, extra_tensors=extra_tensors
        )

    return write


def assert_same_weights(folder: Path, original: Path) -> None:
    ours, expected = load_file(folder / "model.safetensors"), load_file(original / "model.safetensors")
    assert ours.keys() == expected.keys()
    for name, tensor in expected.items():
        np.testing.assert_array_equal(ours[name], tensor, err_msg=name)


@pytest.mark.parametrize("architecture", ["llama-yarn", "qwen2", "qwen3"])
def test_weights_and_configuration_come_back(write: Write, tmp_path: Path, architecture: str) -> None:
    checkpoint = find_checkpoint(str(write(architecture)))
    assert checkpoint.name == "Tiny-Model"
    assert_same_weights(checkpoint.path, tmp_path / "original")
    original = find_checkpoint(str(tmp_path / "original")).config
    assert checkpoint.config == _with_bos(original)


def test_sizes_are_told_without_a_conversion(write: Write, home: Path) -> None:
    file = write()
    told = find_model_config(str(file))
    assert not list(home.rglob("*.safetensors"))
    assert told == find_checkpoint(str(file)).config


def _with_bos(config: Any) -> Any:
    return type(config)(**({field: getattr(config, field) for field in config.__slots__} | {"bos_token_id": 1}))


def test_llama_3_rope_scaling_is_recognised_by_its_divisors(write: Write, tmp_path: Path) -> None:
    file = write("llama3", rope_scaling=LLAMA3_ROPE, extra_tensors={"rope_freqs.weight": llama3_divisors()})
    checkpoint = find_checkpoint(str(file))
    assert checkpoint.config.rope_scaling == find_checkpoint(str(tmp_path / "original")).config.rope_scaling
    assert_same_weights(checkpoint.path, tmp_path / "original")


def test_another_rope_scaling_by_divisors_is_refused(write: Write) -> None:
    divisors = llama3_divisors()
    divisors[5] *= 1.01
    file = write("llama3", extra_tensors={"rope_freqs.weight": divisors})
    with pytest.raises(CheckpointError, match="a rope scaling that is not Llama 3's"):
        find_checkpoint(str(file))


def test_biases_of_a_llama_are_put_back_in_order_too(write: Write, tmp_path: Path) -> None:
    checkpoint = find_checkpoint(str(write(attention_bias=True)))
    assert (checkpoint.config.qkv_bias, checkpoint.config.output_bias) == (True, True)
    assert_same_weights(checkpoint.path, tmp_path / "original")


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "F16", "BF16"])
def test_quantised_weights_are_what_the_format_says(write: Write, tmp_path: Path, kind: str) -> None:
    quantization = GGMLQuantizationType[kind]
    ours = load_file(find_checkpoint(str(write("qwen2", quantization=quantization))).path / "model.safetensors")
    for name, tensor in load_file(tmp_path / "original" / "model.safetensors").items():
        if tensor.ndim == 2:
            tensor = gguf.quants.dequantize(gguf.quants.quantize(tensor, quantization), quantization)
        np.testing.assert_array_equal(ours[name], tensor, err_msg=name)


def test_transformers_loads_the_same_from_the_same_file(write: Write, tmp_path: Path) -> None:
    file = write(quantization=GGMLQuantizationType.Q8_0)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file=file.name, dtype=torch.float32,
        quantization_config=transformers.GgufConfig(dequantize=True),
    )  # fmt: skip
    folder = find_checkpoint(str(file)).path
    tensors = load_file(folder / "model.safetensors")
    state = theirs.state_dict()
    assert state.keys() == tensors.keys()
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(tensor, state[name].numpy(), err_msg=name)
    # and what is written here is a folder that transformers reads as well
    again = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = torch.tensor([[5, 9, 77, 3, 120]])
    torch.testing.assert_close(again(ids).logits, theirs(ids).logits, rtol=0, atol=0)


def test_memory_does_not_grow_with_the_model(tmp_path: Path) -> None:
    original = tiny_checkpoint(tmp_path / "original", "qwen2", num_hidden_layers=12, hidden_size=256)
    file = write_tiny_gguf(tmp_path / "m.gguf", original)
    tracemalloc.start()
    try:
        convert_gguf(file, tmp_path / "converted", silent)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    largest = 256 * 400 * 4
    assert (tmp_path / "converted" / "model.safetensors").stat().st_size > 10 * largest
    assert peak < 5 * largest


def test_progress_counts_the_bytes_that_are_written(write: Write) -> None:
    calls: list[tuple[str, int, int]] = []
    folder = find_checkpoint(str(write()), progress=lambda *call: calls.append(call)).path
    size = sum(tensor.nbytes for tensor in load_file(folder / "model.safetensors").values())
    assert {(task, total) for task, _, total in calls} == {("converting Tiny-Model.gguf", size)}
    done = [done for _, done, _ in calls]
    assert done == sorted(done)
    assert done[-1] == size


def test_a_changed_file_is_converted_again(write: Write) -> None:
    first = find_checkpoint(str(write(seed=0))).path
    assert find_checkpoint(str(write(seed=0))).path != first  # written again: another time of change
    assert find_checkpoint(str(first.parent / first.name)).path == first


class TestRefusals:
    @pytest.mark.parametrize(
        ("metadata", "message"),
        [
            ({"general.architecture": "gemma3"}, "architecture gemma3 is not supported"),
            ({"split.count": 3}, "one of several parts"),
            ({"llama.expert_count": 8}, "llama.expert_count = 8 is not understood"),
            ({"llama.some_new_switch": True}, "llama.some_new_switch = True is not understood"),
            ({"llama.block_count": None}, "llama.block_count is missing"),
            ({"llama.block_count": "x"}, "llama.block_count = 'x' must be a whole number"),
            ({"llama.rope.freq_base": "x"}, "llama.rope.freq_base = 'x' must be a number"),
            ({"llama.block_count": 1 << 31}, "block_count = 2147483648, but there are fewer tensors"),
            ({"llama.rope.scaling.attn_factor": 2.0, "llama.rope.scaling.type": "yarn"}, "attn_factor = 2.0 is not"),
            ({"llama.block_count": 3}, "tensor blk.2.attn_norm.weight is missing"),
            ({"llama.block_count": 1}, r"tensor blk.1.\w+.weight is not understood"),
            ({"llama.feed_forward_length": 95}, r"blk.0.ffn_gate.weight has the shape \(96, 64\), not \(95, 64\)"),
            ({"llama.rope.dimension_count": 8}, "llama.rope.dimension_count = 8 differs from the head size 16"),
            ({"llama.attention.sliding_window": 100}, "sliding_window = 100 is active"),
            (
                {"llama.attention.head_count_kv": [2, 1]},
                r"llama.attention.head_count_kv = \[2, 1\] differs between layers",
            ),
            ({"llama.rope.scaling.type": "longrope", "llama.rope.scaling.factor": 2.0}, "rope_type longrope"),
            ({"llama.rope.scaling.type": "linear"}, "llama.rope.scaling.factor is missing"),
            ({"tokenizer.ggml.model": "llama"}, "kind llama, and only gpt2"),
            ({"tokenizer.ggml.pre": "tekken"}, "pre-tokenizer tekken is not supported"),
            ({"tokenizer.ggml.pre": None}, "pre-tokenizer None is not supported"),
            ({"tokenizer.ggml.tokens": None}, "tokenizer.ggml.tokens is missing"),
            ({"tokenizer.ggml.token_type": [1, 1]}, "differ in length"),
            ({"tokenizer.ggml.merges": ["a b c"]}, "merges holds something that is no pair"),
            ({"tokenizer.ggml.bos_token_id": 400}, "bos_token_id = 400 is no token id"),
        ],
    )
    def test_what_is_not_supported_is_named(
        self, write: Write, home: Path, metadata: dict[str, Any], message: str
    ) -> None:
        file = write(metadata=metadata)
        with pytest.raises(CheckpointError, match=message) as caught:
            find_checkpoint(str(file))
        assert "\n" not in str(caught.value)
        assert list((home / "models").iterdir()) == []

    def test_an_active_sliding_window(self, write: Write) -> None:
        file = write("qwen2", metadata={"qwen2.attention.sliding_window": 100})
        with pytest.raises(CheckpointError, match="sliding_window = 100 is active"):
            find_checkpoint(str(file))

    def test_rope_scaling_given_twice(self, write: Write) -> None:
        scaling = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 2.0}
        file = write("llama3", metadata=scaling, extra_tensors={"rope_freqs.weight": llama3_divisors()})
        with pytest.raises(CheckpointError, match=r"scaling\.type = 'linear' contradicts rope_freqs\.weight"):
            find_checkpoint(str(file))

    def test_a_file_without_an_embedding(self, write: Write) -> None:
        file = write()
        file.write_bytes(file.read_bytes().replace(b"token_embd.weight", b"token_embx.weight"))
        with pytest.raises(CheckpointError, match=r"token_embd\.weight is missing"):
            find_checkpoint(str(file))

    def test_a_quantisation_that_cannot_be_undone(self, write: Write) -> None:
        file = write()
        whole = file.read_bytes()
        entry = whole.index(b"blk.0.attn_norm.weight") + len("blk.0.attn_norm.weight") + 4 + 8
        file.write_bytes(whole[:entry] + bytes([GGMLQuantizationType.I32]) + whole[entry + 1 :])
        with pytest.raises(CheckpointError, match=r"quantisation I32 of blk\.0\.attn_norm\.weight is not supported"):
            find_checkpoint(str(file))


def test_layer_lists_that_agree_are_one_value(write: Write) -> None:
    file = write(metadata={"llama.attention.head_count_kv": [2, 2]})
    assert find_checkpoint(str(file)).config.num_kv_heads == 2


@pytest.mark.parametrize(
    ("scaling", "kind"),
    [
        ({"type": "linear", "factor": 2.0}, "linear"),
        ({"type": "yarn", "factor": 4.0, "original_context_length": 128}, "yarn"),
        ({"type": "none"}, None),
    ],
)
def test_rope_scalings_by_their_keys(write: Write, scaling: dict[str, Any], kind: str | None) -> None:
    metadata = {f"llama.rope.scaling.{key}": value for key, value in scaling.items()}
    config = find_checkpoint(str(write(metadata=metadata))).config
    assert (config.rope_scaling.kind if config.rope_scaling else None) == kind
    if config.rope_scaling:
        assert config.rope_scaling.factor == scaling["factor"]
        assert config.rope_scaling.original_max_position_embeddings == scaling.get("original_context_length", 512)


def test_end_of_turn_ends_a_generation_too(write: Write) -> None:
    file = write(metadata={"tokenizer.ggml.eot_token_id": 0})
    assert find_checkpoint(str(file)).config.eos_token_ids == (2, 0)


class TestInterruption:
    CONVERT = """
import sys, time
from anaphora.checkpoints import find_checkpoint, find_model_config
def progress(task, done, total):
    print(task, done < total, flush=True)
    sys.stdin.readline()
print(find_checkpoint(sys.argv[1], progress=progress).path.name, flush=True)
"""

    def test_kill_9_during_the_first_conversion_then_a_clean_start(self, write: Write, home: Path) -> None:
        file = write()
        command = [sys.executable, "-c", self.CONVERT, str(file)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "converting Tiny-Model.gguf True\n"  # some weights written, not all
            process.kill()
        assert list((home / "models").iterdir()) == []
        (left,) = (home / "partial").iterdir()
        assert (left / left.name / "config.json").exists()

        checkpoint = find_checkpoint(str(file))
        assert_same_weights(checkpoint.path, file.parent / "original")
        assert list((home / "partial").iterdir()) == []

    def test_two_processes_at_once_convert_once(self, write: Write, home: Path) -> None:
        file = write()
        command = [sys.executable, "-c", self.CONVERT, str(file)]
        options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "text": True}
        processes = [subprocess.Popen(command, **options) for _ in range(2)]
        outputs = [process.communicate()[0].splitlines() for process in processes]
        assert [process.returncode for process in processes] == [0, 0]
        assert outputs[0][-1] == outputs[1][-1] == next((home / "models").iterdir()).name
        assert sorted(any(line.startswith("converting") for line in output) for output in outputs) == [False, True]


def test_what_is_written_is_valid_for_transformers_tokenizers_too(write: Write, tmp_path: Path) -> None:
    folder = find_checkpoint(str(write())).path
    config = json.loads((folder / "tokenizer_config.json").read_text())
    assert {key: config[key] for key in ("bos_token", "eos_token", "pad_token")} == {
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
    }
    ours = transformers.AutoTokenizer.from_pretrained(folder)
    original = transformers.AutoTokenizer.from_pretrained(tmp_path / "original")
    text = "Hello there, <|im_start|>\u00e9t\u00e9 12345\n\n  x"
    assert ours(text).input_ids == original(text).input_ids
    chat = [{"role": "user", "content": text}]
    assert ours.apply_chat_template(chat, tokenize=False) == original.apply_chat_template(chat, tokenize=False)

"""GGUF files of tiny models, written by the ``gguf`` package from a model folder, as llama.cpp's converter would."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import load_file

from tests.models_for_tests.tiny_tokenizer import CHAT_TEMPLATE, SPECIAL_TOKENS

_ARCHITECTURES = {"LlamaForCausalLM": "llama", "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3"}
_LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_TOP_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}

Array = np.ndarray[Any, np.dtype[np.float32]]


def write_tiny_gguf(
    file: Path,
    folder: Path,
    *,
    quantization: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    metadata: dict[str, Any] | None = None,
    extra_tensors: dict[str, Array] | None = None,
) -> Path:
    """Write the tiny model of ``folder`` to ``file``. Matrices are stored in ``quantization``, vectors in float32.

    ``metadata`` adds keys or replaces them (``None`` leaves one out), ``extra_tensors`` adds tensors as they are.
    """
    config = json.loads((folder / "config.json").read_text("utf-8"))
    architecture = _ARCHITECTURES[config["architectures"][0]]
    writer = gguf.GGUFWriter(file, architecture)
    for key, value in (_metadata(config, architecture, folder) | (metadata or {})).items():
        _add(writer, key, value)
    for name, tensor in load_file(folder / "model.safetensors").items():
        _add_tensor(writer, *_as_gguf(name, tensor, config, architecture), quantization)
    for name, tensor in (extra_tensors or {}).items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def permuted(weight: Array, num_heads: int) -> Array:
    """Rows in the order of llama.cpp's rotary kernels: the two halves of each head interleaved."""
    return weight.reshape(num_heads, 2, -1, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def _as_gguf(name: str, tensor: Array, config: dict[str, Any], architecture: str) -> tuple[str, Array]:
    stem, kind = name.rsplit(".", 1)
    if stem in _TOP_NAMES:
        return f"{_TOP_NAMES[stem]}.{kind}", tensor
    _, _, layer, part = stem.split(".", 3)
    if architecture == "llama" and part in ("self_attn.q_proj", "self_attn.k_proj"):
        key = "num_attention_heads" if part == "self_attn.q_proj" else "num_key_value_heads"
        tensor = permuted(tensor, config[key])
    return f"blk.{layer}.{_LAYER_NAMES[part]}.{kind}", tensor


def _add_tensor(writer: gguf.GGUFWriter, name: str, tensor: Array, quantization: gguf.GGMLQuantizationType) -> None:
    if tensor.ndim == 1 or quantization == gguf.GGMLQuantizationType.F32:
        writer.add_tensor(name, tensor)
    else:
        writer.add_tensor(name, gguf.quants.quantize(tensor, quantization), raw_dtype=quantization)


def _metadata(config: dict[str, Any], architecture: str, folder: Path) -> dict[str, Any]:
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    sizes = {
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "block_count": config["num_hidden_layers"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": head_dim,
        "attention.value_length": head_dim,
        "attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
        "rope.freq_base": float(config["rope_theta"]),
        "rope.dimension_count": head_dim,
    }
    return {f"{architecture}.{key}": value for key, value in sizes.items()} | _tokenizer_metadata(folder)


def _tokenizer_metadata(folder: Path) -> dict[str, Any]:
    model = json.loads((folder / "tokenizer.json").read_text("utf-8"))["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if token in SPECIAL_TOKENS else 1 for token in tokens],
        "tokenizer.ggml.merges": [" ".join(merge) for merge in model["merges"]],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.padding_token_id": 0,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif value is not None:
        writer.add_array(key, value)

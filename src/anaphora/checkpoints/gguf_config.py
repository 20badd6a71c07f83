"""What a GGUF file's metadata says about the mathematics, written as a ``config.json``.

The same rule as for ``config.json`` holds: each ``<architecture>.*`` key is understood, or refused by name.
"""

from typing import Any

import numpy as np

from anaphora.checkpoints.gguf_file import GgufFile
from anaphora.checkpoints.gguf_keys import ArchitectureKeys, shortest
from anaphora.errors import CheckpointError

_FAMILIES = {
    "llama": ("llama", "LlamaForCausalLM"),
    "mistral": ("llama", "LlamaForCausalLM"),  # the same mathematics without a sliding window, which is refused
    "qwen2": ("qwen2", "Qwen2ForCausalLM"),
    "qwen3": ("qwen3", "Qwen3ForCausalLM"),
}
_SIZES = {
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "block_count": "num_hidden_layers",
    "attention.head_count": "num_attention_heads",
    "context_length": "max_position_embeddings",
}
_UNDERSTOOD = {
    *_SIZES,
    *("vocab_size", "attention.head_count_kv", "attention.layer_norm_rms_epsilon", "attention.key_length"),
    *("attention.value_length", "attention.sliding_window", "rope.freq_base", "rope.dimension_count"),
    *("rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length", "rope.scaling.finetuned"),
    *("rope.scaling.attn_factor", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"),
}
_OFF_WHEN_ZERO = {"expert_count", "expert_used_count"}
ROPE_FACTORS = "rope_freqs.weight"
"""Llama 3's rope scaling, which GGUF stores as one divisor per frequency instead of its parameters."""
_LLAMA3_CONTEXT = 8192
"""Tokens that Llama 3 was trained on before its rope was scaled."""


def gguf_config(file: GgufFile) -> dict[str, Any]:
    """The ``config.json`` of ``file``.

    Raises:
        CheckpointError: an unsupported architecture, a missing key, or one that is not understood.
    """
    architecture = file.metadata.get("general.architecture")
    if architecture not in _FAMILIES:
        supported = ", ".join(sorted(_FAMILIES))
        raise CheckpointError(f"{file.path}: architecture {architecture} is not supported (supported: {supported})")
    if file.metadata.get("split.count", 1) not in (0, 1):
        raise CheckpointError(f"{file.path} is one of several parts: join them with llama-gguf-split --merge")
    keys = ArchitectureKeys(file.metadata, architecture, str(file.path))
    keys.refuse_all_but(_UNDERSTOOD, off_when_zero=_OFF_WHEN_ZERO)
    model_type, class_name = _FAMILIES[architecture]
    window = keys.integer("attention.sliding_window", 0) or None
    config: dict[str, Any] = {name: keys.integer(key) for key, name in _SIZES.items()} | {
        "architectures": [class_name],
        "model_type": model_type,
        "num_key_value_heads": keys.integer("attention.head_count_kv", keys.integer("attention.head_count")),
        "head_dim": _head_dim(keys),
        "vocab_size": _vocab_size(file),
        "rms_norm_eps": keys.number("attention.layer_norm_rms_epsilon"),
        "rope_theta": keys.number("rope.freq_base", 10000.0),
        "rope_scaling": _rope_scaling(file, keys),
        "sliding_window": window,
        "hidden_act": "silu",
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "torch_dtype": "float32",
        "bos_token_id": file.metadata.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": _eos_token_ids(file),
    }
    if model_type == "llama":
        config["attention_bias"] = "blk.0.attn_q.bias" in file.tensors
        config["mlp_bias"] = "blk.0.ffn_up.bias" in file.tensors
    elif window:
        config |= {"use_sliding_window": True, "max_window_layers": 0}
    return config


def _head_dim(keys: ArchitectureKeys) -> int:
    derived = keys.integer("embedding_length") // max(1, keys.integer("attention.head_count"))
    head_dim = keys.integer("attention.key_length", derived)
    for key in ("attention.value_length", "rope.dimension_count"):
        if keys.integer(key, head_dim) != head_dim:
            raise keys.error(key, f"differs from the head size {head_dim}: not supported")
    return head_dim


def _vocab_size(file: GgufFile) -> int:
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None:
        raise CheckpointError(f"{file.path}: token_embd.weight is missing")
    return embedding.shape[0]


def _rope_scaling(file: GgufFile, keys: ArchitectureKeys) -> dict[str, Any] | None:
    kind = keys.get("rope.scaling.type", "none")
    if ROPE_FACTORS in file.tensors:
        if kind != "none":
            raise keys.error("rope.scaling.type", f"contradicts {ROPE_FACTORS}")
        return _llama3_scaling(file, keys)
    if kind == "none":
        return None
    if keys.number("rope.scaling.attn_factor", 1.0) != 1.0:
        raise keys.error("rope.scaling.attn_factor", "is not supported")
    return {
        "rope_type": kind,
        "factor": keys.number("rope.scaling.factor"),
        "original_max_position_embeddings": keys.get("rope.scaling.original_context_length"),
        "beta_fast": keys.get("rope.scaling.yarn_beta_fast"),
        "beta_slow": keys.get("rope.scaling.yarn_beta_slow"),
    }


def _llama3_scaling(file: GgufFile, keys: ArchitectureKeys) -> dict[str, Any]:
    """Llama 3's parameters, taken for the published ones and compared with the divisors in the file."""
    tensor = file.tensors[ROPE_FACTORS]
    raw = file.raw_rows(tensor, slice(None)).reshape(-1)
    divisors = raw.view("<f4") if tensor.kind.name == "F32" else np.zeros(1, np.float32)
    factor = float(divisors.max())
    wavelengths = 2 * np.pi * keys.number("rope.freq_base", 10000.0) ** (np.arange(divisors.size) / divisors.size)
    smooth = np.clip((_LLAMA3_CONTEXT / wavelengths - 1.0) / (4.0 - 1.0), 0.0, 1.0)
    is_llama3 = factor >= 1 and np.allclose(divisors, 1 / ((1 - smooth) / factor + smooth), rtol=1e-4)
    if divisors.size * 2 != _head_dim(keys) or not is_llama3:
        raise CheckpointError(f"{file.path}: {ROPE_FACTORS} holds a rope scaling that is not Llama 3's: not supported")
    return {
        "rope_type": "llama3",
        "factor": shortest(factor),
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": _LLAMA3_CONTEXT,
    }


def _eos_token_ids(file: GgufFile) -> list[int]:
    """End of text, and end of turn where a file names it apart."""
    names = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
    ids = [file.metadata[name] for name in names if isinstance(file.metadata.get(name), int)]
    return list(dict.fromkeys(ids))

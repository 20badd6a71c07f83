"""What a GGUF file's metadata says about the mathematics, written as a ``config.json``.

The same rule as for ``config.json`` holds: each ``<architecture>.*`` key is understood, or refused by name.
"""

from typing import Any

import numpy as np

from anaphora.checkpoints.gguf_file import GgufFile
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


def gguf_config(file: GgufFile) -> dict[str, Any]:
    """The ``config.json`` of ``file``.

    Raises:
        CheckpointError: an unsupported architecture, a missing key, or one that is not understood.
    """
    architecture = file.metadata.get("general.architecture")
    if architecture not in _FAMILIES:
        supported = ", ".join(sorted(_FAMILIES))
        raise CheckpointError(f"{file.path}: architecture {architecture} is not supported (supported: {supported})")
    if file.metadata.get("split.count", 1) > 1:
        raise CheckpointError(f"{file.path} is one of several parts: join them with llama-gguf-split --merge")
    keys = _ArchitectureKeys(file, architecture)
    keys.refuse_unknown()
    model_type, class_name = _FAMILIES[architecture]
    num_heads = keys.required("attention.head_count")
    config = {name: keys.required(key) for key, name in _SIZES.items()} | {
        "architectures": [class_name],
        "model_type": model_type,
        "num_key_value_heads": keys.get("attention.head_count_kv", num_heads),
        "head_dim": _head_dim(keys),
        "vocab_size": _vocab_size(file),
        "rms_norm_eps": _shortest(keys.required("attention.layer_norm_rms_epsilon")),
        "rope_theta": _shortest(keys.get("rope.freq_base", 10000.0)),
        "rope_scaling": _rope_scaling(file, keys),
        "sliding_window": keys.get("attention.sliding_window", None) or None,
        "hidden_act": "silu",
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "torch_dtype": "float32",
        "bos_token_id": file.metadata.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": _eos_token_ids(file),
    }
    if model_type == "llama":
        config["attention_bias"] = "blk.0.attn_q.bias" in file.tensors
        config["mlp_bias"] = "blk.0.ffn_up.bias" in file.tensors
    elif config["sliding_window"]:
        config |= {"use_sliding_window": True, "max_window_layers": 0}
    return config


class _ArchitectureKeys:
    """Metadata below ``<architecture>.``"""

    def __init__(self, file: GgufFile, architecture: str) -> None:
        self._file = file
        self._prefix = f"{architecture}."

    def refuse_unknown(self) -> None:
        for name, value in self._file.metadata.items():
            key = name.removeprefix(self._prefix)
            if key == name or key in _UNDERSTOOD or (key in _OFF_WHEN_ZERO and not value):
                continue
            raise CheckpointError(
                f"{self._file.path}: {name} = {value!r:.80} is not understood and may change what the model computes"
            )

    def get(self, key: str, default: Any) -> Any:
        value = self._file.metadata.get(self._prefix + key, default)
        if isinstance(value, list):  # one value per layer
            if len(set(value)) != 1:
                raise CheckpointError(f"{self._file.path}: {self._prefix}{key} differs between layers: not supported")
            return value[0]
        return value

    def required(self, key: str) -> Any:
        value = self.get(key, None)
        if value is None:
            raise CheckpointError(f"{self._file.path}: {self._prefix}{key} is missing")
        return value


def _head_dim(keys: _ArchitectureKeys) -> int:
    derived = keys.required("embedding_length") // max(1, keys.required("attention.head_count"))
    head_dim: int = keys.get("attention.key_length", derived)
    for key in ("attention.value_length", "rope.dimension_count"):
        if keys.get(key, head_dim) != head_dim:
            raise CheckpointError(
                f"{key} = {keys.get(key, head_dim)} differs from the head size {head_dim}: unsupported"
            )
    return head_dim


def _vocab_size(file: GgufFile) -> int:
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None:
        raise CheckpointError(f"{file.path}: token_embd.weight is missing")
    return embedding.shape[0]


def _rope_scaling(file: GgufFile, keys: _ArchitectureKeys) -> dict[str, Any] | None:
    if ROPE_FACTORS in file.tensors:
        return _llama3_scaling(file, keys)
    kind = keys.get("rope.scaling.type", "none")
    if kind == "none":
        return None
    scaling = {
        "rope_type": kind,
        "factor": _shortest(keys.required("rope.scaling.factor")),
        "original_max_position_embeddings": keys.get("rope.scaling.original_context_length", None),
    }
    if kind == "yarn":
        scaling |= {
            "beta_fast": keys.get("rope.scaling.yarn_beta_fast", None),
            "beta_slow": keys.get("rope.scaling.yarn_beta_slow", None),
        }
        if keys.get("rope.scaling.attn_factor", 1.0) != 1.0:
            raise CheckpointError(f"{file.path}: rope.scaling.attn_factor is not supported")
    return scaling


def _llama3_scaling(file: GgufFile, keys: _ArchitectureKeys) -> dict[str, Any]:
    """Llama 3's parameters, taken for the published ones and compared with the divisors in the file."""
    tensor = file.tensors[ROPE_FACTORS]
    divisors = file.raw_rows(tensor, slice(None)).reshape(-1).view("<f4")
    scaling = {
        "rope_type": "llama3",
        "factor": _shortest(divisors.max()),
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    wavelengths = 2 * np.pi * keys.get("rope.freq_base", 10000.0) ** (np.arange(divisors.size) / divisors.size)
    smooth = np.clip((8192 / wavelengths - 1.0) / (4.0 - 1.0), 0.0, 1.0)
    expected = 1 / ((1 - smooth) / scaling["factor"] + smooth)
    if divisors.size * 2 != _head_dim(keys) or not np.allclose(divisors, expected, rtol=1e-4):
        raise CheckpointError(f"{file.path}: {ROPE_FACTORS} holds a rope scaling that is not Llama 3's: not supported")
    return scaling


def _eos_token_ids(file: GgufFile) -> list[int]:
    """End of text, and end of turn where a file names it apart."""
    names = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
    ids = [file.metadata[name] for name in names if isinstance(file.metadata.get(name), int)]
    return list(dict.fromkeys(ids))


def _shortest(value: float) -> float:
    """A float32 from the file as the decimal number that was meant: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(value)))

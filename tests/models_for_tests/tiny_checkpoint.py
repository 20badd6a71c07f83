"""Model folders of each supported architecture, a few hundred kilobytes each."""

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors.numpy import save_file

from tests.models_for_tests import qwen_tokenizer, tiny_tokenizer

Architecture = Literal["llama3", "mistral", "qwen2", "qwen3", "llama-yarn"]

_SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "torch_dtype": "float32",
    "vocab_size": tiny_tokenizer.VOCAB_SIZE,
    "eos_token_id": tiny_tokenizer.EOS_TOKEN_ID,
}
_LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
_YARN_ROPE = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}

ARCHITECTURES: dict[Architecture, dict[str, Any]] = {
    "llama3": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "rope_theta": 500000.0,
        "rope_scaling": _LLAMA3_ROPE,
        "tie_word_embeddings": True,
    },
    "mistral": {
        "architectures": ["MistralForCausalLM"],
        "model_type": "mistral",
        "head_dim": 24,  # not hidden_size / num_attention_heads
        "rope_theta": 10000.0,
        "sliding_window": None,
        "tie_word_embeddings": False,
    },
    "qwen2": {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "rope_theta": 1000000.0,
        "sliding_window": 256,
        "use_sliding_window": False,
        "max_window_layers": 3,
        "tie_word_embeddings": True,
    },
    "qwen3": {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "head_dim": 32,
        "attention_bias": False,
        "rope_theta": 1000000.0,
        "tie_word_embeddings": False,
    },
    "llama-yarn": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "rope_theta": 10000.0,
        "rope_scaling": _YARN_ROPE,
        "tie_word_embeddings": False,
    },
}


def tiny_config(architecture: Architecture, **overrides: Any) -> dict[str, Any]:
    """The ``config.json`` of a tiny model; ``overrides`` replace or add keys."""
    return _SIZES | ARCHITECTURES[architecture] | overrides


def tiny_checkpoint(
    folder: Path,
    architecture: Architecture = "llama3",
    *,
    seed: int = 0,
    tokenizer: Literal["tiny", "qwen2.5"] = "tiny",
    **overrides: Any,
) -> Path:
    """Make a whole model folder and return it: ``config.json``, random float32 weights, tokenizer with chat template.

    Weights depend on ``seed`` and sizes only. Greedy text wanders (no token repeats for ever) and near-ties are rare.
    ``overrides`` replace or add keys of ``config.json``. With ``tokenizer="qwen2.5"`` the vocabulary is Qwen's.
    """
    if tokenizer == "qwen2.5":
        overrides = {"vocab_size": qwen_tokenizer.VOCAB_SIZE, "eos_token_id": 151645, "hidden_size": 32} | overrides
    config = tiny_config(architecture, **overrides)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1), "utf-8")
    save_file(_weights(config, np.random.default_rng(seed)), folder / "model.safetensors", {"format": "pt"})
    if tokenizer == "qwen2.5":
        qwen_tokenizer.write_qwen_tokenizer(folder)
    else:
        tiny_tokenizer.write_tiny_tokenizer(folder)
    return folder


def weight_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Name and shape of each tensor of the model."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    head_dim = config.get("head_dim") or hidden // config["num_attention_heads"]
    query, kv = config["num_attention_heads"] * head_dim, config["num_key_value_heads"] * head_dim
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config["vocab_size"], hidden)}
    for layer in range(config["num_hidden_layers"]):
        attention, mlp = f"model.layers.{layer}.self_attn.", f"model.layers.{layer}.mlp."
        shapes[f"model.layers.{layer}.input_layernorm.weight"] = (hidden,)
        for name, rows in (("q_proj", query), ("k_proj", kv), ("v_proj", kv)):
            shapes[f"{attention}{name}.weight"] = (rows, hidden)
            if config["model_type"] == "qwen2" or config.get("attention_bias"):
                shapes[f"{attention}{name}.bias"] = (rows,)
        if config["model_type"] == "qwen3":
            shapes |= {f"{attention}q_norm.weight": (head_dim,), f"{attention}k_norm.weight": (head_dim,)}
        shapes[f"{attention}o_proj.weight"] = (hidden, query)
        if config.get("attention_bias"):
            shapes[f"{attention}o_proj.bias"] = (hidden,)
        shapes[f"model.layers.{layer}.post_attention_layernorm.weight"] = (hidden,)
        for name, rows, columns in (
            ("gate_proj", inner, hidden),
            ("up_proj", inner, hidden),
            ("down_proj", hidden, inner),
        ):
            shapes[f"{mlp}{name}.weight"] = (rows, columns)
            if config.get("mlp_bias"):
                shapes[f"{mlp}{name}.bias"] = (rows,)
    shapes["model.norm.weight"] = (hidden,)
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (config["vocab_size"], hidden)
    return shapes


def _weights(config: dict[str, Any], random: np.random.Generator) -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    weights = {}
    for name, shape in weight_shapes(config).items():
        noise = random.standard_normal(shape, dtype=np.float32)
        if name.endswith("norm.weight"):
            weights[name] = 1 + 0.1 * noise
        elif name.endswith("bias"):
            weights[name] = 0.5 * noise
        elif name == "model.embed_tokens.weight":
            weights[name] = 0.3 * noise
        else:
            weights[name] = noise * np.float32(2.0 / shape[-1] ** 0.5)
    return weights

"""Which keys of ``config.json`` are known, and what each family of models does when a key is missing.

Three sorts of keys: those that are read (here and in ``rope.py``), those that cannot change a forward pass, and those
that are neutral at one value only. Anything else changes the mathematics in a way nobody here has checked.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Family:
    """What sets one architecture apart from its relatives, and what a missing key means for it."""

    model_type: str
    architecture: str
    attention_bias_key: bool
    """Whether ``attention_bias`` is read (then it covers query, key, value and output alike)."""
    qkv_bias: bool
    """Bias on query, key and value when ``attention_bias`` is not read."""
    qk_norm: bool
    mlp_bias_key: bool
    default_kv_heads: int | None
    """``num_key_value_heads`` when missing; ``None``: as many as query heads."""
    default_head_dim: int | None
    """``head_dim`` when missing; ``None``: ``hidden_size / num_attention_heads``."""
    window_switch: bool
    """Whether ``sliding_window`` does nothing unless ``use_sliding_window`` is true."""


FAMILIES: tuple[Family, ...] = (
    Family("llama", "LlamaForCausalLM", True, False, False, True, None, None, False),
    Family("mistral", "MistralForCausalLM", False, False, False, False, 8, None, False),
    Family("qwen2", "Qwen2ForCausalLM", False, True, False, False, 32, None, True),
    Family("qwen3", "Qwen3ForCausalLM", True, False, True, False, 32, 128, True),
)


def _keys(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


READ_KEYS = _keys(
    "architectures model_type vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads",
    "num_key_value_heads head_dim max_position_embeddings original_max_position_embeddings rms_norm_eps rope_theta",
    "rope_scaling rope_parameters tie_word_embeddings attention_bias mlp_bias hidden_act torch_dtype dtype",
    "bos_token_id eos_token_id sliding_window use_sliding_window max_window_layers layer_types",
)

HARMLESS_KEYS = _keys(
    # bookkeeping
    "_name_or_path transformers_version transformers.js_config unsloth_version unsloth_fixed is_llama_config",
    "_attn_implementation_autoset _attn_implementation attn_implementation finetuning_task task_specific_params",
    # training only
    "initializer_range attention_dropout hidden_dropout resid_pdrop embd_pdrop attn_pdrop dropout",
    # what is returned and how it is generated, not how it is computed
    "use_cache return_dict return_dict_in_generate output_attentions output_hidden_states output_scores",
    "pad_token_id unk_token_id sep_token_id cls_token_id decoder_start_token_id tokenizer_class prefix torchscript",
    "id2label label2id num_labels problem_type max_length min_length do_sample temperature top_k top_p num_beams",
    "repetition_penalty",
    # slices a product that is summed again
    "pretraining_tp",
)
"""Keys that may have any value: none of them changes a forward pass."""

NEUTRAL_VALUES: Mapping[str, tuple[Any, ...]] = {
    "partial_rotary_factor": (1, 1.0),
    "rope_interleaved": (False,),
    "is_decoder": (False, True),  # no cross-attention without an encoder
    "is_encoder_decoder": (False,),
    "add_cross_attention": (False,),
    "tie_encoder_decoder": (False,),
    "chunk_size_feed_forward": (0,),
    "pruned_heads": ({},),
    "num_experts": (0,),
    "num_local_experts": (0,),
    "num_nextn_predict_layers": (0,),
    "qk_layernorm": (False,),
    "no_bias": (True,),
}
"""Keys that change nothing at these values."""

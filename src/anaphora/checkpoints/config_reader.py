"""``config.json`` (and ``generation_config.json``) of a model folder → :class:`ModelConfig`.

Every key is read, known to be harmless, or refused by name: a model that runs with one of its settings ignored gives
wrong text and no error, which is the worst answer there is.
"""

from pathlib import Path
from typing import Any, Literal

from anaphora.checkpoints.config_keys import FAMILIES, HARMLESS_KEYS, NEUTRAL_VALUES, READ_KEYS, Family
from anaphora.checkpoints.json_fields import Fields, read_json_object
from anaphora.checkpoints.model_config import ModelConfig
from anaphora.checkpoints.rope import read_rope
from anaphora.errors import CheckpointError

Dtype = Literal["float32", "float16", "bfloat16"]
_DTYPES: dict[str, Dtype] = {"float32": "float32", "float16": "float16", "bfloat16": "bfloat16"}


def read_model_config(folder: Path) -> ModelConfig:
    """The configuration of the model in ``folder``.

    Raises:
        CheckpointError: the file is missing or damaged, the architecture is not supported, or a key that may change
            the mathematics is not understood.
    """
    path = folder / "config.json"
    values = read_json_object(path)
    config = Fields(values, str(path))
    family = _family(config)
    _refuse_unknown_keys(values, config)
    return _model_config(config, family, read_eos_token_ids(folder))


def _model_config(config: Fields, family: Family, eos_token_ids: tuple[int, ...]) -> ModelConfig:
    max_position_embeddings = config.integer("max_position_embeddings")
    _refuse_sliding_window(config, family, max_position_embeddings)
    if config.raw("hidden_act") not in (None, "silu", "swish"):
        raise config.error("hidden_act", "is not supported (supported: silu)")
    rope_theta, rope_scaling = read_rope(config, max_position_embeddings)
    num_heads, num_kv_heads, head_dim = _heads(config, family)
    attention_bias = _bias(config, "attention_bias", family.attention_bias_key, implied=family.qkv_bias)
    return ModelConfig(
        architecture=family.architecture,
        vocab_size=config.integer("vocab_size"),
        hidden_size=config.integer("hidden_size"),
        intermediate_size=config.integer("intermediate_size"),
        num_layers=config.integer("num_hidden_layers"),
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        max_position_embeddings=max_position_embeddings,
        rms_norm_eps=config.number("rms_norm_eps", 1e-6),
        rope_theta=rope_theta,
        rope_scaling=rope_scaling,
        tie_word_embeddings=config.flag("tie_word_embeddings", False),
        qkv_bias=attention_bias or family.qkv_bias,
        output_bias=attention_bias and family.attention_bias_key,
        mlp_bias=_bias(config, "mlp_bias", family.mlp_bias_key, implied=False),
        qk_norm=family.qk_norm,
        dtype=_dtype(config),
        bos_token_id=next(iter(config.token_ids("bos_token_id")), None),
        eos_token_ids=eos_token_ids,
    )


def _family(config: Fields) -> Family:
    architectures = config.raw("architectures")
    model_type = config.raw("model_type")
    supported = ", ".join(family.architecture for family in FAMILIES)
    for family in FAMILIES:
        if architectures == [family.architecture] or (architectures is None and model_type == family.model_type):
            if model_type not in (None, family.model_type):
                raise config.error("model_type", f"does not fit {family.architecture}")
            return family
    named = architectures if architectures is not None else model_type
    raise CheckpointError(f"{config.where}: architecture {named} is not supported (supported: {supported})")


def _refuse_unknown_keys(values: dict[str, Any], config: Fields) -> None:
    for key, value in values.items():
        if value is None or key in READ_KEYS or key in HARMLESS_KEYS:
            continue
        if key not in NEUTRAL_VALUES:
            raise config.error(key, "is not understood and may change what the model computes")
        if value not in NEUTRAL_VALUES[key]:
            raise config.error(key, f"is not supported (supported: {NEUTRAL_VALUES[key][0]})")


def _heads(config: Fields, family: Family) -> tuple[int, int, int]:
    num_heads = config.integer("num_attention_heads")
    num_kv_heads = config.integer("num_key_value_heads", family.default_kv_heads or num_heads)
    if num_heads % num_kv_heads:
        raise config.error("num_key_value_heads", f"must divide num_attention_heads = {num_heads}")
    head_dim = config.integer("head_dim", family.default_head_dim or config.integer("hidden_size") // num_heads, low=2)
    if head_dim % 2:
        raise config.error("head_dim", "must be even: rotary positions turn pairs")
    return num_heads, num_kv_heads, head_dim


def _bias(config: Fields, key: str, is_read: bool, *, implied: bool) -> bool:
    """A bias switch; a family that does not read it may only repeat what it does anyway."""
    value = config.flag(key, False if is_read else implied)
    if not is_read and value != implied:
        raise config.error(key, "is not supported for this architecture")
    return value


def _refuse_sliding_window(config: Fields, family: Family, max_position_embeddings: int) -> None:
    layer_types = config.raw("layer_types")
    if layer_types is not None and (not isinstance(layer_types, list) or set(layer_types) - {"full_attention"}):
        raise config.error("layer_types", "is not supported (supported: full_attention in every layer)")
    window = config.optional_integer("sliding_window")
    if window is None or window >= max_position_embeddings:
        return
    if family.window_switch:
        # Layers from max_window_layers on slide, unless layer_types says it layer by layer.
        sliding_layers = config.integer("max_window_layers", 28, low=0) < config.integer("num_hidden_layers")
        if not config.flag("use_sliding_window", False) or layer_types is not None or not sliding_layers:
            return
    raise config.error("sliding_window", "is active and not supported: use a model with full attention")


def _dtype(config: Fields) -> Dtype:
    for key in ("dtype", "torch_dtype"):
        if key in config:
            name = str(config.raw(key)).removeprefix("torch.")
            if name not in _DTYPES:
                raise config.error(key, f"is not supported (supported: {', '.join(_DTYPES)})")
            return _DTYPES[name]
    return "float32"


def read_eos_token_ids(folder: Path) -> tuple[int, ...]:
    """Every id that ends a generation: those of ``config.json``, then what ``generation_config.json`` adds. A missing
    file adds nothing."""
    ids: tuple[int, ...] = ()
    for path in (folder / "config.json", folder / "generation_config.json"):
        if path.exists():
            ids += Fields(read_json_object(path), str(path)).token_ids("eos_token_id")
    return tuple(dict.fromkeys(ids))

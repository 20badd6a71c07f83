"""Rotary position settings of ``config.json`` in both spellings that are found in the wild.

Older files have ``rope_theta`` beside ``rope_scaling`` (whose kind is ``type`` or ``rope_type``); newer ones have one
object, ``rope_parameters``. A file with both must say the same twice.
"""

from collections.abc import Mapping
from typing import Any

from anaphora.checkpoints.json_fields import Fields
from anaphora.checkpoints.model_config import RopeScaling
from anaphora.errors import CheckpointError

DEFAULT_ROPE_THETA = 10000.0

_COMMON_KEYS = frozenset({"rope_type", "type", "rope_theta", "partial_rotary_factor"})
_YARN_KEYS = "beta_fast beta_slow attention_factor mscale mscale_all_dim truncate"
_KEYS_OF_KIND: Mapping[str, frozenset[str]] = {
    "default": frozenset({"original_max_position_embeddings", "factor"}),
    "linear": frozenset({"original_max_position_embeddings", "factor"}),
    "llama3": frozenset({"original_max_position_embeddings", "factor", "low_freq_factor", "high_freq_factor"}),
    "yarn": frozenset({"original_max_position_embeddings", "factor", *_YARN_KEYS.split(" ")}),
}


def read_rope(config: Fields, max_position_embeddings: int) -> tuple[float, RopeScaling | None]:
    """Rotary base and frequency scaling.

    Raises:
        CheckpointError: an unknown kind or key, or two spellings that contradict each other.
    """
    scalings, thetas = [], [config.optional_number("rope_theta")]
    for key in ("rope_parameters", "rope_scaling"):
        value = config.raw(key)
        if value is None:
            continue
        if not isinstance(value, dict):
            raise config.error(key, "must be an object")
        fields = Fields(value, f"{config.where}: {key}")
        thetas.append(fields.optional_number("rope_theta"))
        scalings.append(_read_scaling(value, fields, config, max_position_embeddings))
    known_thetas = {theta for theta in thetas if theta is not None}
    if len(known_thetas) > 1 or any(scaling != scalings[0] for scaling in scalings):
        raise CheckpointError(f"{config.where}: rope_parameters contradicts rope_theta or rope_scaling")
    return next(iter(known_thetas), DEFAULT_ROPE_THETA), scalings[0] if scalings else None


def _read_scaling(value: dict[str, Any], fields: Fields, config: Fields, max_positions: int) -> RopeScaling | None:
    kind = _kind(value, fields)
    unknown = sorted(k for k in value.keys() - _KEYS_OF_KIND[kind] - _COMMON_KEYS if value[k] is not None)
    if unknown:
        raise CheckpointError(f"{fields.where}: {unknown[0]} is not understood for rope_type {kind}")
    if fields.raw("partial_rotary_factor") not in (None, 1, 1.0):
        raise fields.error("partial_rotary_factor", "is not supported: only whole heads are rotated here")
    if kind == "default":
        if fields.raw("factor") not in (None, 1, 1.0):
            raise fields.error("factor", "needs a rope_type that scales")
        return None
    # A top-level original_max_position_embeddings wins over the one inside, as in the models' reference code.
    inner = fields.integer("original_max_position_embeddings", max_positions)
    original = config.integer("original_max_position_embeddings", inner)
    if kind == "llama3":
        return _llama3(fields, original)
    if kind == "linear":
        return RopeScaling("linear", fields.number("factor"), original)
    return _yarn(fields, original, max_positions)


def _kind(value: dict[str, Any], fields: Fields) -> str:
    kinds = {str(value[key]) for key in ("rope_type", "type") if value.get(key) is not None}
    kind = " and ".join(sorted(kinds)) or "default"
    if kind not in _KEYS_OF_KIND:
        supported = ", ".join(_KEYS_OF_KIND)
        raise CheckpointError(f"{fields.where}: rope_type {kind} is not supported (supported: {supported})")
    return kind


def _llama3(fields: Fields, original: int) -> RopeScaling:
    return RopeScaling(
        "llama3",
        fields.number("factor"),
        original,
        low_freq_factor=fields.number("low_freq_factor"),
        high_freq_factor=fields.number("high_freq_factor"),
    )


def _yarn(fields: Fields, original: int, max_positions: int) -> RopeScaling:
    return RopeScaling(
        "yarn",
        fields.number("factor", max_positions / original),
        original,
        beta_fast=fields.number("beta_fast", 32.0),
        beta_slow=fields.number("beta_slow", 1.0),
        attention_factor=fields.optional_number("attention_factor"),
        mscale=fields.optional_number("mscale"),
        mscale_all_dim=fields.optional_number("mscale_all_dim"),
        truncate=fields.flag("truncate", True),
    )

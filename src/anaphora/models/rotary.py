"""Rotary position embedding: plain, and with llama3, yarn or linear scaling of the frequencies.

A pair of elements of a query or key head turns by ``position * frequency``: one multiplication by a complex number of
that angle. Checkpoints pair element ``i`` with ``i + head_dim / 2``; :func:`interleave_heads` reorders the rows of a
projection once, at load, so that a pair lies side by side and is one complex number. Queries and keys are reordered
alike, so their products stay the same.
"""

import math

import torch

from anaphora.checkpoints.model_config import ModelConfig, RopeScaling


class Rotary:
    """Turns by position. Rotations are made once a pass for all layers, so no table of all positions is kept."""

    def __init__(self, config: ModelConfig) -> None:
        self.frequencies = _frequencies(config)
        """``[head_dim / 2]`` float32 radians per position."""
        self.length = _attention_factor(config.rope_scaling)

    def rotations(self, positions: torch.Tensor) -> torch.Tensor:
        """``[T, 1, head_dim / 2]`` complex64: the turn of each pair at ``positions`` ``[T]``."""
        angles = torch.outer(positions.float(), self.frequencies).unsqueeze(1)
        return torch.polar(torch.full_like(angles, self.length), angles)


def interleave_heads(rows: torch.Tensor, head_dim: int) -> torch.Tensor:
    """Put row ``i`` of each head next to row ``i + head_dim / 2``. ``[num_heads * head_dim, ...]``, same shape out."""
    pairs = rows.reshape(-1, 2, head_dim // 2, *rows.shape[1:])
    return pairs.transpose(1, 2).reshape(rows.shape)


def rotate(heads: torch.Tensor, rotations: torch.Tensor) -> None:
    """Turn ``heads`` ``[T, num_heads, head_dim]`` in place by ``rotations`` ``[T, 1, head_dim / 2]`` complex64."""
    pairs = heads.view(*heads.shape[:-1], -1, 2)
    if heads.dtype is torch.float32:
        torch.view_as_complex(pairs).mul_(rotations)
    else:
        pairs.copy_(torch.view_as_real(torch.view_as_complex(pairs.float()).mul_(rotations)))


def _frequencies(config: ModelConfig) -> torch.Tensor:
    """``[head_dim / 2]`` float32: radians per position of each pair, falling geometrically from 1 before scaling.

    At position 10 000 a rounding of a frequency is an angle's error of 0.001: operations are in the oracle's order.
    """
    periods = torch.pow(config.rope_theta, torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim)
    scaling = config.rope_scaling
    if scaling is None:
        return 1.0 / periods
    if scaling.kind == "linear":
        return 1.0 / periods / scaling.factor
    if scaling.kind == "llama3":
        return _llama3(1.0 / periods, scaling)
    return _yarn(periods, scaling, config)


def _llama3(frequencies: torch.Tensor, scaling: RopeScaling) -> torch.Tensor:
    """Slow turns (few in the original context) are slowed by ``factor``, fast ones kept, those between blended."""
    turns = scaling.original_max_position_embeddings / (2 * math.pi / frequencies)
    kept = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    kept = kept.clamp(0.0, 1.0)
    return (1 - kept) * frequencies / scaling.factor + kept * frequencies


def _yarn(periods: torch.Tensor, scaling: RopeScaling, config: ModelConfig) -> torch.Tensor:
    """Like llama3, but blended along the index of the pair instead of its number of turns."""

    def pair_with(num_turns: float) -> float:
        context = scaling.original_max_position_embeddings
        return config.head_dim * math.log(context / (num_turns * 2 * math.pi)) / (2 * math.log(config.rope_theta))

    low, high = pair_with(scaling.beta_fast), pair_with(scaling.beta_slow)
    if scaling.truncate:
        low, high = float(math.floor(low)), float(math.ceil(high))
    low, high = max(low, 0.0), min(high, config.head_dim - 1.0)
    if low == high:
        high += 0.001  # the ramp divides by the difference
    pair = torch.arange(config.head_dim // 2, dtype=torch.float32)
    kept = 1 - ((pair - low) / (high - low)).clamp(0.0, 1.0)
    return 1.0 / (scaling.factor * periods) * (1 - kept) + 1.0 / periods * kept


def _attention_factor(scaling: RopeScaling | None) -> float:
    """By how much yarn lengthens queries and keys, which makes attention sharper (section 3.4 of arXiv 2309.00071)."""
    if scaling is None or scaling.kind != "yarn":
        return 1.0
    if scaling.attention_factor is not None:
        return scaling.attention_factor
    if scaling.mscale and scaling.mscale_all_dim:
        return _mscale(scaling.factor, scaling.mscale) / _mscale(scaling.factor, scaling.mscale_all_dim)
    return _mscale(scaling.factor, 1.0)


def _mscale(factor: float, weight: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

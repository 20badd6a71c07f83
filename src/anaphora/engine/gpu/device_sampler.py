"""Sampling on the device: many rows in a few operators, and only token ids come back.

Greedy rows are one argmax, inside the pass. Random rows with temperature, min-p, top-k and top-p are drawn here by the
definition of :func:`anaphora.engine.sampler.draw`; whatever needs more goes through the sampler on the host.
"""

from collections.abc import Sequence
from typing import Any

import torch

from anaphora.engine.sampling_params import SamplingParams

ROWS_AT_ONCE = 32
"""Sorting a row of a large vocabulary takes megabytes."""


def draw_rows(
    logits: torch.Tensor,
    rows: Sequence[int],
    params: Sequence[SamplingParams],
    uniforms: Sequence[float],
    sampled: torch.Tensor,
) -> None:
    """Draw the token of each of ``rows`` of ``logits`` ``[R, vocab_size]`` at the point ``uniforms`` of its
    distribution, and write it into the same row of ``sampled`` ``[R]``."""
    for first in range(0, len(rows), ROWS_AT_ONCE):
        some = slice(first, first + ROWS_AT_ONCE)
        at = _sent(list(rows[some]), torch.int64, logits.device)
        sampled[at] = _drawn(logits[at].float(), params[some], uniforms[some]).to(sampled.dtype)


def _drawn(logits: torch.Tensor, params: Sequence[SamplingParams], uniforms: Sequence[float]) -> torch.Tensor:
    """``[N]`` ids; ``logits`` ``[N, vocab_size]`` float32."""
    settings = [[p.temperature, p.min_p, p.top_k if p.top_k > 0 else logits.shape[1], p.top_p] for p in params]
    rows = [[*row, uniform] for row, uniform in zip(settings, uniforms, strict=True)]
    columns = _sent(rows, torch.float64, logits.device)
    temperature, min_p, top_k, top_p, uniform = columns.unsqueeze(-1).unbind(1)
    weights = ((logits - logits.amax(-1, keepdim=True)) / temperature.float()).exp_()  # the likeliest has weight 1
    weights = torch.where(weights < min_p.float(), 0.0, weights)
    if any(p.top_k > 0 or p.top_p < 1.0 for p in params):
        weights = _cut(weights, top_k, top_p)
    sums = weights.cumsum(-1, dtype=torch.float64)
    whole = sums[:, -1:]
    point = torch.minimum(uniform * whole, torch.nextafter(whole, torch.zeros_like(whole)))
    return torch.searchsorted(sums, point, right=True).squeeze(-1)


def _sent(numbers: Sequence[Any], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """From page-locked memory: else the host would wait for all that was launched before."""
    return torch.tensor(numbers, dtype=dtype, pin_memory=device.type == "cuda").to(device, non_blocking=True)


def _cut(weights: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Zero all but the ``top_k`` largest and, of those, all but the fewest that make up ``top_p``."""
    values, ids = weights.sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(values.shape[1], device=values.device)
    values = torch.where(rank < top_k, values, 0.0)
    sums = values.cumsum(-1, dtype=torch.float64)
    before = sums - values
    values = torch.where(before < top_p * sums[:, -1:], values, 0.0)
    return torch.zeros_like(weights).scatter_(1, ids, values)

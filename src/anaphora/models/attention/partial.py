"""Attention to a part of the keys, and how parts are put together.

Softmax over a union of keys is the mean of the softmaxes over its parts, weighted by their sums of exponentials. So
a part gives its mixed values and the logarithm of that sum (``lse``), and nobody needs all keys in one matrix.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import torch


class Part(NamedTuple):
    """What queries ``[B, H, Q, D]`` got from some of their keys."""

    mixed: torch.Tensor
    """``[B, H, Q, D]``: values weighted by the softmax over these keys."""
    lse: torch.Tensor
    """``[B, H, Q]`` float32: log of the sum of exponentials of the scores."""


class PartialAttention(Protocol):
    """``queries [B, H, Q, D]``, ``keys`` and ``values`` ``[B, H, K, D]``, scores scaled by ``1 / sqrt(D)``.

    With ``causal`` query ``i`` sees keys ``[0, i]``, else all. ``mask`` ``[B, 1, 1, K]`` is added to the scores.
    """

    def __call__(
        self,
        queries: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        *,
        causal: bool,
        mask: torch.Tensor | None = None,
    ) -> Part: ...


def plain_partial(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    causal: bool,
    mask: torch.Tensor | None = None,
) -> Part:
    """By the definition, with a whole matrix of scores."""
    scores = torch.matmul(queries, keys.transpose(-1, -2)).float() / math.sqrt(queries.shape[-1])
    if mask is not None:
        scores += mask
    if causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu_(1)
        scores.masked_fill_(future, -math.inf)
    lse = scores.logsumexp(-1)
    return Part(torch.matmul(scores.softmax(-1).to(values.dtype), values), lse)


def flash_partial(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    causal: bool,
    mask: torch.Tensor | None = None,
) -> Part:
    """By torch's tiled CPU kernel, which keeps no matrix of scores."""
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    return Part(*kernel(queries, keys, values, 0.0, causal, attn_mask=mask))


def fastest_partial(dtype: torch.dtype) -> PartialAttention:
    """The tiled kernel where this torch has it and it agrees with the definition: it is not a public function."""
    generator = torch.Generator().manual_seed(0)
    queries, keys, values = torch.randn(3, 2, 2, 5, 16, generator=generator).to(dtype)
    mask = torch.zeros(2, 1, 1, 5, dtype=dtype).index_fill_(3, torch.tensor([3, 4]), -math.inf)
    cases: list[dict[str, Any]] = [{"causal": False}, {"causal": True}, {"causal": False, "mask": mask}]
    try:
        results = [flash_partial(queries, keys, values, **case) for case in cases]
    except (AttributeError, RuntimeError, TypeError):
        return plain_partial
    expected = [plain_partial(queries, keys, values, **case) for case in cases]
    tolerance = 1e-5 if dtype is torch.float32 else 3e-2
    agrees = all(
        torch.allclose(a.float(), b.float(), rtol=tolerance, atol=tolerance)
        for result, wanted in zip(results, expected, strict=True)
        for a, b in zip(result, wanted, strict=True)
    )
    return flash_partial if agrees else plain_partial


def merge(parts: Sequence[Part]) -> Part:
    """Attention over the union of the parts' keys. May overwrite the first part."""
    mixed, lse = parts[0]
    for part in parts[1:]:
        weight = torch.sigmoid(part.lse - lse).unsqueeze(-1).to(mixed.dtype)
        mixed = mixed.lerp_(part.mixed, weight)
        lse = torch.logaddexp(lse, part.lse)
    return Part(mixed, lse)

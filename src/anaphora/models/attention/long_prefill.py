"""Many new tokens of one request, by a library's kernel for dense attention where there is one that is faster.

    keys of the request   [piece][piece][piece][rest | new ..... | padding]
    queries                                    [---- | new ..... | ------]   causal over their own stretch, joined with
                                                                             what they got from each piece before it

Such a kernel is built anew for each shape, which takes tens of milliseconds: so there are few shapes. Queries before
and behind the new ones are padding. Keys behind them are hidden by causality, so that they may be anything but NaN.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from anaphora.models.batch import SequenceSpan
from anaphora.models.kernels import fold as fold_kernels

log = logging.getLogger(__name__)

DenseAttention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, bool], tuple[torch.Tensor, torch.Tensor]]
"""Queries ``[1, num_heads, S, D]``, keys and values ``[1, num_kv_heads, K, D]``, causal or not (from the top left) to
what they get, ``[1, num_heads, S, D]``, and the log-sum-exp of their scores, ``[1, num_heads, S, 1]`` float32."""

MIN_NEW = 1025
"""New tokens, for which the launches of a dense attention pay: smaller steps are captured, with attention inside."""
PIECES = (24576, 16384, 8192, 2048, 512)
"""Keys of a piece. The rest is less than the last one. Few large pieces leave little to join: a prompt that is computed
in chunks of 8192 tokens has one behind its first chunk."""
COARSE = 4096
"""From so many queries on there is a shape for every 512, below for every 256."""


@dataclass(frozen=True, slots=True)
class LongPrefillPlan:
    """One request's long prefill. ``rest``: queries of padding before the new ones."""

    rows: slice
    """Of the flat batch."""
    rest: int
    num_queries: int
    """With padding."""
    pieces: tuple[torch.Tensor | slice, ...]
    """Slots of each piece, then of the queries' own stretch."""


def cudnn_attention(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, causal: bool) -> tuple[
    torch.Tensor, torch.Tensor
]:  # fmt: skip
    """By cuDNN, whose kernels are made for the GPU at hand."""
    attend = torch.ops.aten._scaled_dot_product_cudnn_attention.default
    mixed, lse, *_ = attend(queries, keys, values, None, True, 0.0, causal, False)
    return mixed, lse


def find_dense_attention(
    num_heads: int, num_kv_heads: int, head_dim: int, dtype: torch.dtype, device: torch.device
) -> DenseAttention | None:
    """A library's dense attention that runs here; None, with a line in the log, if there is none."""
    if device.type != "cuda" or dtype is torch.float32:
        return None
    queries = torch.zeros(1, num_heads, 256, head_dim, dtype=dtype, device=device)
    keys = torch.zeros(1, num_kv_heads, 256, head_dim, dtype=dtype, device=device)
    try:
        cudnn_attention(queries, keys, keys, True)
    except (AttributeError, RuntimeError) as problem:
        reason = str(problem).partition("\n")[0]
        log.warning("long prefills use our own attention kernel: cuDNN's does not run here (%s)", reason)
        return None
    return cudnn_attention


class LongPrefill:
    """Long prefills over the paged cache by a dense attention."""

    def __init__(self, dense: DenseAttention, block_size: int, device: torch.device) -> None:
        self._dense = dense
        self._block_size = block_size
        self._device = device

    def suits(self, span: SequenceSpan) -> bool:
        """Whether the request has so many new tokens that this is the fastest way."""
        return span.query_len >= MIN_NEW

    def plan(self, span: SequenceSpan) -> LongPrefillPlan:
        """Cut the keys, once for all layers."""
        first = span.kv_len - span.query_len
        pieces, start = [], 0
        for size in PIECES:
            while first - start >= size:
                pieces.append(self._slots(span, start, start + size))
                start += size
        rest = first - start
        num_queries = padded_length(rest + span.query_len)
        pieces.append(self._slots(span, start, start + num_queries))
        rows = slice(span.query_start, span.query_start + span.query_len)
        return LongPrefillPlan(rows, rest, num_queries, tuple(pieces))

    def run(self, plan: LongPrefillPlan, queries: torch.Tensor, cache: torch.Tensor, out: torch.Tensor) -> None:
        """The request's rows of ``queries`` and ``out`` ``[T, num_heads, D]``; ``cache`` holds its new keys already."""
        new = slice(plan.rest, plan.rest + plan.rows.stop - plan.rows.start)
        padded = queries[plan.rows]
        if plan.num_queries != len(padded):
            padded = queries.new_zeros(plan.num_queries, *queries.shape[1:])
            padded[new] = queries[plan.rows]
        own = self._attend(padded, cache, plan.pieces[-1], causal=True)
        if len(plan.pieces) == 1:
            out[plan.rows] = own[0][new]
            return
        before = [self._attend(padded, cache, piece, causal=False) for piece in plan.pieces[:-1]]
        fold_kernels.fold([own, *before], out[plan.rows], skipped=plan.rest)

    def warm_up(
        self, num_heads: int, num_kv_heads: int, head_dim: int, dtype: torch.dtype, max_new: int, max_keys: int
    ) -> None:
        """Build the kernels of all causal shapes of up to ``max_new`` new tokens, and of pieces of up to ``max_keys``
        keys, and those that join them, so that no request waits for one."""
        fold_kernels.warm_up(num_heads, head_dim, dtype, self._device)
        for length in sorted({padded_length(num_new) for num_new in range(MIN_NEW, max_new + 1, 64)}):
            queries = torch.zeros(length, num_heads, head_dim, dtype=dtype, device=self._device)
            keys = torch.zeros(2, num_kv_heads, length, head_dim, dtype=dtype, device=self._device)
            self._attend(queries, keys, slice(0, length), causal=True)
        for piece in [
            size for size in PIECES if max_new >= MIN_NEW and size < max_keys
        ]:  # a chunk behind others is as long as may be, mostly
            keys = torch.zeros(2, num_kv_heads, piece, head_dim, dtype=dtype, device=self._device)
            self._attend(queries, keys, slice(0, piece), causal=False)

    def _attend(
        self, queries: torch.Tensor, cache: torch.Tensor, slots: torch.Tensor | slice, *, causal: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values = (cache[:, :, slots] if isinstance(slots, slice) else cache.index_select(2, slots)).unsqueeze(1)
        mixed, lse = self._dense(queries.transpose(0, 1).unsqueeze(0), keys, values, causal)
        return mixed[0].transpose(0, 1), lse[0].squeeze(-1)

    def _slots(self, span: SequenceSpan, start: int, end: int) -> torch.Tensor | slice:
        """Where tokens ``[start, end)`` lie; beyond the request's end, its last one. A slice if side by side."""
        token = np.minimum(np.arange(start, end), span.kv_len - 1)
        blocks = np.asarray(span.block_table, dtype=np.int64)
        slots = blocks[token // self._block_size] * self._block_size + token % self._block_size
        if np.array_equal(slots, np.arange(slots[0], slots[0] + len(slots))):
            return slice(int(slots[0]), int(slots[0]) + len(slots))
        return torch.from_numpy(slots).to(self._device, non_blocking=True)


def padded_length(num_queries: int) -> int:
    """The next shape."""
    step = 512 if num_queries > COARSE else 256
    return -(-num_queries // step) * step


def split_long(
    spans: Sequence[SequenceSpan], long: LongPrefill | None
) -> tuple[list[SequenceSpan], list[SequenceSpan]]:
    """Requests whose prefill is long, and all others."""
    if long is None:
        return [], list(spans)
    return [span for span in spans if long.suits(span)], [span for span in spans if not long.suits(span)]

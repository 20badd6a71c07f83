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
import numpy.typing as npt
import torch

from anaphora.models.batch import SequenceSpan
from anaphora.models.kernels import fold as fold_kernels
from anaphora.models.kernels.tokens import gather_tokens

log = logging.getLogger(__name__)

IntArray = npt.NDArray[np.int32]
DenseAttention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, bool], tuple[torch.Tensor, torch.Tensor]]
"""Queries ``[1, num_heads, S, D]``, keys and values ``[1, num_kv_heads, K, D]``, causal or not (from the top left) to
what they get, ``[1, num_heads, S, D]``, and the log-sum-exp of their scores, ``[1, num_heads, S, 1]`` float32."""

MIN_NEW = 1025
"""New tokens, for which the launches of a dense attention pay: smaller steps are captured, with attention inside."""
PIECES = (24576, 16384, 8192, 2048, 512)
"""Keys of a piece. The rest is less than the last one. Few large pieces leave little to join: a prompt that is computed
in chunks of 8192 tokens has one behind its first chunk."""
COARSE = 4096
"""From so many queries on there is a shape for every 512, below for every 128, the rows of the library's tiles."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some keys of a request, side by side in the cache or gathered from its blocks."""

    start: int
    """Token of the request."""
    length: int
    """May run beyond the request's end: what lies there is its last token again."""
    slots: slice | None
    """Where they lie, if side by side."""


@dataclass(frozen=True, slots=True)
class LongPrefillPlan:
    """One request's long prefill. ``rest``: queries of padding before the new ones."""

    rows: slice
    """Of the flat batch."""
    rest: int
    num_queries: int
    """With padding."""
    pieces: tuple[Piece, ...]
    """The last one are the queries' own stretch."""
    table: torch.Tensor
    """The request's blocks, int32, on the device."""
    kv_len: int

    @property
    def margin(self) -> int:
        """The more of the padding before and behind."""
        return max(self.rest, self.num_queries - self.rest - self.num_new)

    @property
    def num_new(self) -> int:
        """Queries without padding."""
        return int(self.rows.stop - self.rows.start)


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
        table = np.asarray(span.block_table, dtype=np.int32)
        pieces, start = [], 0
        for size in PIECES:
            while first - start >= size:
                pieces.append(self._piece(table, span.kv_len, start, size))
                start += size
        rest = first - start
        num_queries = padded_length(rest + span.query_len)
        pieces.append(self._piece(table, span.kv_len, start, num_queries))
        rows = slice(span.query_start, span.query_start + span.query_len)
        return LongPrefillPlan(rows, rest, num_queries, tuple(pieces), self._sent(table), span.kv_len)

    def run(
        self, plan: LongPrefillPlan, queries: torch.Tensor, cache: torch.Tensor, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        """What the request's rows of ``queries`` ``[T, num_heads, D]`` get, which goes to the same rows of ``out`` if
        that is given. ``cache`` holds the new keys already."""
        padded = _padded(queries, plan)
        own = self._attend(padded, cache, plan, plan.pieces[-1], causal=True)
        if len(plan.pieces) == 1:
            mixed = own[0][plan.rest : plan.rest + plan.num_new]
            return mixed if out is None else out[plan.rows].copy_(mixed)
        before = [self._attend(padded, cache, plan, piece, causal=False) for piece in plan.pieces[:-1]]
        joined = queries.new_empty(plan.num_new, *queries.shape[1:]) if out is None else out[plan.rows]
        fold_kernels.fold([own, *before], joined, skipped=plan.rest)
        return joined

    def warm_up(
        self, num_heads: int, num_kv_heads: int, head_dim: int, dtype: torch.dtype, max_new: int, max_keys: int
    ) -> None:
        """Build the kernels of all causal shapes of up to ``max_new`` new tokens, of pieces of up to ``max_keys`` keys
        for as many queries as may be, those that gather keys and those that join stretches: few requests then wait for
        one. Of the library's those for gathered keys: for others, with other strides, it builds its own.
        """
        fold_kernels.warm_up(num_heads, head_dim, dtype, self._device)
        cache = torch.zeros(2, num_kv_heads, 1, head_dim, dtype=dtype, device=self._device)
        table = torch.zeros(1, dtype=torch.int32, device=self._device)
        gather_tokens(cache, table, self._block_size, 0, 0, torch.empty_like(cache))
        for length in sorted({padded_length(num_new) for num_new in range(MIN_NEW, max_new + 1, 64)}):
            queries = torch.zeros(length, num_heads, head_dim, dtype=dtype, device=self._device)
            keys = torch.zeros(2, num_kv_heads, length, head_dim, dtype=dtype, device=self._device)
            self._dense_over(queries, keys, causal=True)
        for piece in [
            size for size in PIECES if max_new >= MIN_NEW and size < max_keys
        ]:  # a chunk behind others is as long as may be, mostly
            keys = torch.zeros(2, num_kv_heads, piece, head_dim, dtype=dtype, device=self._device)
            self._dense_over(queries, keys, causal=False)

    def _attend(
        self, queries: torch.Tensor, cache: torch.Tensor, plan: LongPrefillPlan, piece: Piece, *, causal: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if piece.slots is not None:
            return self._dense_over(queries, cache[:, :, piece.slots], causal=causal)
        keys = cache.new_empty(2, cache.shape[1], piece.length, cache.shape[3])
        gather_tokens(cache, plan.table, self._block_size, piece.start, plan.kv_len - 1, keys)
        return self._dense_over(queries, keys, causal=causal)

    def _dense_over(
        self, queries: torch.Tensor, cached: torch.Tensor, *, causal: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """``[S, num_heads, D]`` queries over ``[2, num_kv_heads, K, D]``: what they get, and ``[num_heads, S]``."""
        keys, values = cached.unsqueeze(1)
        mixed, lse = self._dense(queries.transpose(0, 1).unsqueeze(0), keys, values, causal)
        return mixed[0].transpose(0, 1), lse[0].squeeze(-1)

    def _piece(self, table: IntArray, kv_len: int, start: int, length: int) -> Piece:
        """Whether it lies side by side, which all of its tokens must be there for."""
        size = self._block_size
        blocks = table[start // size : -(-(start + length) // size)]
        first = int(blocks[0])
        if start + length > kv_len or not np.array_equal(blocks, np.arange(first, first + len(blocks))):
            return Piece(start, length, None)
        return Piece(start, length, slice(first * size + start % size, first * size + start % size + length))

    def _sent(self, table: IntArray) -> torch.Tensor:
        on_host = torch.from_numpy(table.copy())  # the request's own may grow
        if self._device.type == "cuda":
            on_host = on_host.pin_memory()  # so that nothing waits for the passes that are under way
        return on_host.to(self._device, non_blocking=True)


def _padded(queries: torch.Tensor, plan: LongPrefillPlan) -> torch.Tensor:
    """The request's queries with padding before and behind them: what lies around them, if there is enough of it."""
    new, row, num_rows = queries[plan.rows], queries.stride(0), plan.num_queries
    first = new.storage_offset() - plan.rest * row
    if first >= 0 and first + num_rows * row <= queries.untyped_storage().nbytes() // queries.element_size():
        return queries.as_strided((num_rows, *queries.shape[1:]), queries.stride(), first)
    padded = queries.new_zeros(num_rows, *queries.shape[1:])
    padded[plan.rest : plan.rest + len(new)] = new
    return padded


def padded_length(num_queries: int) -> int:
    """The next shape."""
    step = 512 if num_queries > COARSE else 128
    return -(-num_queries // step) * step


def split_long(
    spans: Sequence[SequenceSpan], long: LongPrefill | None
) -> tuple[list[SequenceSpan], list[SequenceSpan]]:
    """Requests whose prefill is long, and all others."""
    if long is None:
        return [], list(spans)
    return [span for span in spans if long.suits(span)], [span for span in spans if not long.suits(span)]

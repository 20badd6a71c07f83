"""Attention on CPU. The one idea: the queries of a tile meet their keys part by part, and no part is copied.

A tile is a few neighbouring queries of one request, at positions ``[a, b)``. Its parts:

    keys    [0 ............................ a)[a ... b)
             runs of blocks that lie together   the tile itself
             in the KV tensors: each is a       causal, straight from the
             view, seen by every query          projection

Query heads that share a KV head are packed into rows of one matrix, so that cached keys are read once for all of them.
Where blocks are scattered, a request's keys are gathered once a layer instead.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch

from anaphora.models.attention.partial import Part, PartialAttention, merge
from anaphora.models.attention.runs import slot_runs
from anaphora.models.batch import ForwardBatch, SequenceSpan
from anaphora.models.kv_cache import PagedKVCache

QUERY_TILE = 128
"""Queries per tile. Larger ones compute more scores above the diagonal in vain, smaller ones make poorer products."""
MIN_MEAN_RUN = 384
"""Tokens. Below this mean length of a run, copying costs less than a part per run (measured: 256 to 512 break even)."""


@dataclass(frozen=True, slots=True)
class _Tile:
    rows: slice
    """Of the flat batch."""
    prefix: tuple[slice, ...]
    """Slots of the keys that every query of the tile sees; a single query sees its own key there too."""


@dataclass(frozen=True, slots=True)
class _SpanPlan:
    gather_index: torch.Tensor | None
    """What is to be gathered first; the tiles' prefixes then count within what was gathered."""
    tiles: tuple[_Tile, ...]


@dataclass(frozen=True, slots=True)
class CpuPlan:
    """A batch as tiles. ``new_slots``: where its keys and values go, a slice if they go side by side."""

    new_slots: slice | torch.Tensor
    spans: tuple[_SpanPlan, ...]


class CpuAttention:
    """See :class:`anaphora.models.attention.base.Attention`."""

    def __init__(self, num_heads: int, num_kv_heads: int, partial: PartialAttention) -> None:
        self._num_heads = num_heads
        self._num_kv_heads = num_kv_heads
        self._partial = partial

    def plan(self, batch: ForwardBatch, kv: PagedKVCache) -> CpuPlan:
        """Views, gathers and tiles of this batch."""
        spans = tuple(_plan_span(span, kv) for span in batch.spans)
        return CpuPlan(_side_by_side(batch.slot_mapping), spans)

    def run(self, plan: CpuPlan, layer: int, heads: torch.Tensor, kv: PagedKVCache) -> torch.Tensor:
        """See the protocol."""
        kv.write(layer, plan.new_slots, heads[:, self._num_heads :])
        output = torch.empty(len(heads), self._num_heads, heads.shape[-1], dtype=heads.dtype)
        for span in plan.spans:
            cached = kv.layer(layer) if span.gather_index is None else kv.gather(layer, span.gather_index)
            for tile in span.tiles:
                self._attend(heads[tile.rows], cached, tile.prefix, output[tile.rows])
        return output.flatten(1)

    def _attend(
        self, heads: torch.Tensor, cached: torch.Tensor, prefix: tuple[slice, ...], output: torch.Tensor
    ) -> None:
        """One tile: ``heads`` ``[Q, num_heads + 2 * num_kv_heads, D]`` into ``output`` ``[Q, num_heads, D]``."""
        num_queries, _, head_dim = heads.shape
        grouped = (self._num_kv_heads, -1, num_queries, head_dim)
        queries = _by_group(heads[:, : self._num_heads], self._num_kv_heads)
        packed = queries.reshape(1, self._num_kv_heads, -1, head_dim)
        parts = []
        if num_queries > 1:
            keys, values = self._own_keys_and_values(heads)
            parts.append(self._partial(packed.view(grouped), keys, values, causal=True))
        for run in prefix:
            mixed, lse = self._partial(packed, cached[:1, :, run], cached[1:, :, run], causal=False)
            parts.append(Part(mixed.view(grouped), lse.view(grouped[:-1])))
        _by_group(output, self._num_kv_heads).copy_(merge(parts))

    def _own_keys_and_values(self, heads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The tile's keys and values as ``[num_kv_heads, group, Q, D]``, the same for each head of a group."""
        group = self._num_heads // self._num_kv_heads
        new = heads[:, self._num_heads :].transpose(0, 1).unsqueeze(1).expand(-1, group, -1, -1)
        return new[: self._num_kv_heads], new[self._num_kv_heads :]


def _by_group(heads: torch.Tensor, num_kv_heads: int) -> torch.Tensor:
    """``[Q, num_heads, D]`` seen as ``[num_kv_heads, group, Q, D]``."""
    return heads.view(len(heads), num_kv_heads, -1, heads.shape[-1]).permute(1, 2, 0, 3)


def _plan_span(span: SequenceSpan, kv: PagedKVCache) -> _SpanPlan:
    first = span.kv_len - span.query_len
    cuts = [*range(0, span.query_len, QUERY_TILE), span.query_len]
    tiles = list(pairwise(cuts))
    seen = [first + (end if end - start == 1 else start) for start, end in tiles]
    runs = slot_runs(span.block_table, kv.block_size, max(seen))
    gather_index = None
    if len(runs) > 1 and max(seen) < MIN_MEAN_RUN * len(runs):
        gather_index = kv.gather_index(torch.cat([torch.arange(start, end) for start, end in runs]))
        runs = [(0, max(seen))]
    rows = [slice(span.query_start + start, span.query_start + end) for start, end in tiles]
    prefixes = [_clip(runs, num_tokens) for num_tokens in seen]
    return _SpanPlan(gather_index, tuple(_Tile(*tile) for tile in zip(rows, prefixes, strict=True)))


def _clip(runs: list[tuple[int, int]], num_tokens: int) -> tuple[slice, ...]:
    """The first ``num_tokens`` slots of the runs."""
    clipped = []
    for start, end in runs:
        if num_tokens <= 0:
            break
        clipped.append(slice(start, min(end, start + num_tokens)))
        num_tokens -= end - start
    return tuple(clipped)


def _side_by_side(slots: torch.Tensor) -> slice | torch.Tensor:
    """The slice that ``slots`` are, if they are one."""
    first = int(slots[0])
    last = first + len(slots)
    return slice(first, last) if torch.equal(slots, torch.arange(first, last)) else slots

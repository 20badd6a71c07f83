"""Attention on CPU: keys and values of a request are a view where its blocks lie together, a gather otherwise."""

import math
from dataclasses import dataclass

import torch

from anaphora.models.attention.runs import slot_runs
from anaphora.models.batch import ForwardBatch
from anaphora.models.kv_cache import PagedKVCache

QUERY_TILE = 128
"""Queries per tile: bounds the score matrix, and skips the keys that no query of the tile may see."""


@dataclass(frozen=True, slots=True)
class _SpanPlan:
    rows: slice
    first_position: int
    slots: slice | torch.Tensor
    """Where the tokens ``[0, kv_len)`` lie."""


class CpuAttention:
    """See :class:`anaphora.models.attention.base.Attention`."""

    def plan(self, batch: ForwardBatch, kv: PagedKVCache) -> list[_SpanPlan]:
        """One entry per request."""
        plans = []
        for span in batch.spans:
            runs = slot_runs(span.block_table, kv.block_size, span.kv_len)
            slots = slice(*runs[0]) if len(runs) == 1 else torch.cat([torch.arange(a, b) for a, b in runs])
            rows = slice(span.query_start, span.query_start + span.query_len)
            plans.append(_SpanPlan(rows, span.kv_len - span.query_len, slots))
        return plans

    def run(self, plan: list[_SpanPlan], layer: int, queries: torch.Tensor, kv: PagedKVCache) -> torch.Tensor:
        """See the protocol."""
        keys, values = kv.layer(layer)
        output = torch.empty_like(queries)
        for span in plan:
            span_keys, span_values = keys[:, span.slots], values[:, span.slots]
            num_queries = span.rows.stop - span.rows.start
            for start in range(0, num_queries, QUERY_TILE):
                tile = slice(span.rows.start + start, min(span.rows.start + start + QUERY_TILE, span.rows.stop))
                num_visible = span.first_position + start + tile.stop - tile.start
                output[tile] = _attend(queries[tile], span_keys[:, :num_visible], span_values[:, :num_visible])
        return output.flatten(1)


def _attend(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The last query sees all keys, the one before it all but one, and so on. ``[Q, H, D]`` out."""
    num_queries, _, head_dim = queries.shape
    num_kv_heads, num_keys, _ = keys.shape
    packed = queries.view(num_queries, num_kv_heads, -1, head_dim).permute(1, 2, 0, 3)
    packed = packed.reshape(num_kv_heads, -1, head_dim)
    scores = torch.bmm(packed, keys.transpose(1, 2)).mul_(1.0 / math.sqrt(head_dim))
    if num_queries > 1:
        last = scores.view(num_kv_heads, -1, num_queries, num_keys)[..., num_keys - num_queries :]
        last.masked_fill_(torch.ones(num_queries, num_queries, dtype=torch.bool).triu_(1), -math.inf)
    mixed = torch.bmm(torch.softmax(scores, dim=-1), values)
    return mixed.view(num_kv_heads, -1, num_queries, head_dim).permute(2, 0, 1, 3).reshape(queries.shape)

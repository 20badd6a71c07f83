"""Attention on CPU. The one idea: queries meet their keys part by part, and what many see is read once for all.

A tile is a few neighbouring queries of one request, at positions ``[a, b)``. Its parts:

    keys    [0 ........... s)[s .......... a)[a ... b)
             shared           own             the tile itself
             leading blocks   runs of blocks  causal, straight from the projection
             of many requests

Blocks that lie together in the KV tensors are a view. Queries that see a part in full are rows of one matrix: the query
heads that share a KV head and, over shared blocks, all requests that have them. Where blocks are scattered, keys are
gathered once a layer instead; so are the few keys of single queries, which then attend together.
"""

import torch

from anaphora.models.attention.partial import Part, PartialAttention, merge
from anaphora.models.attention.plan import BunchPlan, CpuPlan, SharedPlan, Tile, plan_batch
from anaphora.models.batch import ForwardBatch
from anaphora.models.kv_cache import PagedKVCache


class CpuAttention:
    """See :class:`anaphora.models.attention.base.Attention`."""

    def __init__(self, num_heads: int, num_kv_heads: int, partial: PartialAttention) -> None:
        self._num_heads = num_heads
        self._num_kv_heads = num_kv_heads
        self._partial = partial

    def plan(self, batch: ForwardBatch, kv: PagedKVCache) -> CpuPlan:
        """Views, gathers and tiles of this batch."""
        return plan_batch(batch, kv)

    def run(self, plan: CpuPlan, layer: int, heads: torch.Tensor, kv: PagedKVCache) -> torch.Tensor:
        """See the protocol."""
        kv.write(layer, plan.new_slots, heads[:, self._num_heads :])
        queries = heads[:, : self._num_heads]
        output = torch.empty(queries.shape, dtype=heads.dtype)
        before = self._attend_shared(queries, layer, plan.shared, kv) if plan.shared else None
        if plan.bunch is not None:
            self._attend_bunch(queries, plan.bunch, kv.gather(layer, plan.bunch.gather_index), before, output)
        for span in plan.spans:
            cached = kv.layer(layer) if span.gather_index is None else kv.gather(layer, span.gather_index)
            for tile in span.tiles:
                self._attend_tile(heads, tile, cached, before, output)
        return output.flatten(1)

    def _attend_shared(
        self, queries: torch.Tensor, layer: int, shared: tuple[SharedPlan, ...], kv: PagedKVCache
    ) -> Part:
        """What each query got from shared keys: ``[T, num_heads, D]``, and minus infinity where it shares none."""
        mixed, lse = torch.zeros_like(queries), torch.full(queries.shape[:2], -torch.inf)
        for group in shared:
            index, rows = group.keys.gather_index, group.rows
            cached = kv.layer(layer) if index is None else kv.gather(layer, index)
            parts = [self._rows(Part(mixed, lse), rows), *self._prefix(queries[rows], cached, group.keys.runs)]
            joined = merge(parts)
            mixed[rows] = joined.mixed.permute(2, 0, 1, 3).flatten(1, 2)
            lse[rows] = joined.lse.permute(2, 0, 1).flatten(1, 2)
        return Part(mixed, lse)

    def _attend_bunch(
        self, queries: torch.Tensor, bunch: BunchPlan, gathered: torch.Tensor, before: Part | None, output: torch.Tensor
    ) -> None:
        """Single queries of ``S`` requests, ``gathered`` ``[2, num_kv_heads, S * K, D]``, into their rows of output."""
        num_singles, _, _, num_keys = bunch.mask.shape
        keys, values = gathered.view(2, self._num_kv_heads, num_singles, num_keys, -1).transpose(1, 2)
        single = queries[bunch.rows].view(num_singles, self._num_kv_heads, -1, queries.shape[-1])
        parts = [self._partial(single, keys, values, causal=False, mask=bunch.mask)]
        if before is not None:
            shape = single.shape
            parts.append(Part(before.mixed[bunch.rows].view(shape), before.lse[bunch.rows].view(shape[:-1])))
        output[bunch.rows] = merge(parts).mixed.flatten(1, 2)

    def _attend_tile(
        self, heads: torch.Tensor, tile: Tile, cached: torch.Tensor, before: Part | None, output: torch.Tensor
    ) -> None:
        """One tile's rows of ``heads`` ``[T, num_heads + 2 * num_kv_heads, D]`` into those of output."""
        own = heads[tile.rows]
        queries = own[:, : self._num_heads]
        parts = []
        if len(own) > 1:
            keys, values = self._own_keys_and_values(own)
            parts.append(self._partial(self._by_group(queries), keys, values, causal=True))
        parts += self._prefix(queries, cached, tile.prefix)
        if before is not None:
            parts.append(self._rows(before, tile.rows))
        self._by_group(output[tile.rows]).copy_(merge(parts).mixed)

    def _prefix(self, queries: torch.Tensor, cached: torch.Tensor, runs: tuple[slice, ...]) -> list[Part]:
        """What ``queries`` ``[Q, num_heads, D]`` get from each run, all of which they see; by group."""
        if not runs:
            return []
        grouped = self._by_group(queries)
        packed = grouped.reshape(1, self._num_kv_heads, -1, queries.shape[-1])
        shape = grouped.shape
        parts = [self._partial(packed, cached[:1, :, run], cached[1:, :, run], causal=False) for run in runs]
        return [Part(mixed.view(shape), lse.view(shape[:-1])) for mixed, lse in parts]

    def _own_keys_and_values(self, heads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The tile's keys and values as ``[num_kv_heads, group, Q, D]``, the same for each head of a group."""
        group = self._num_heads // self._num_kv_heads
        new = heads[:, self._num_heads :].transpose(0, 1).unsqueeze(1).expand(-1, group, -1, -1)
        return new[: self._num_kv_heads], new[self._num_kv_heads :]

    def _rows(self, part: Part, rows: slice | torch.Tensor) -> Part:
        """Those rows of a part of the flat batch, by group."""
        return Part(self._by_group(part.mixed[rows]), self._by_group(part.lse[rows]))

    def _by_group(self, heads: torch.Tensor) -> torch.Tensor:
        """``[Q, num_heads, ...]`` seen as ``[num_kv_heads, group, Q, ...]``."""
        group = self._num_heads // self._num_kv_heads
        return heads.view(len(heads), self._num_kv_heads, group, *heads.shape[2:]).movedim(0, 2)

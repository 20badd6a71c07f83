"""How the CUDA kernels cut their work: sizes that were measured, by what a step holds. No torch, no Triton."""

from dataclasses import dataclass, replace
from typing import Literal

Precision = Literal["tf32", "ieee"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TileConfig:
    """Sizes of one launch. A captured graph holds for one of these."""

    rows: int
    """Query rows of a tile: tokens times the query heads that share a KV head, at most."""
    columns: int
    """Keys met at once, a multiple of the block size."""
    num_warps: int
    num_stages: int
    """Tiles of keys in flight."""
    programs_per_sm: int
    overhead_tokens: int
    """What starting a task costs, as keys that would be read in that time."""
    fixed_split: int = 0
    """Keys of every split, at fixed positions. 0: as many splits as fill the GPU."""


DECODE = TileConfig(rows=16, columns=128, num_warps=8, num_stages=2, programs_per_sm=1, overhead_tokens=64)
"""Single queries, and up to a few tokens of one request."""
EXTEND = TileConfig(rows=64, columns=64, num_warps=8, num_stages=3, programs_per_sm=1, overhead_tokens=64)
"""Several tokens of a request, or of many requests over blocks that they share."""
PREFILL = TileConfig(rows=128, columns=64, num_warps=8, num_stages=3, programs_per_sm=1, overhead_tokens=64)
"""Hundreds of tokens of one request."""
BATCH_INVARIANT = replace(EXTEND, fixed_split=1024)
"""For every step alike: what a query gets depends on its own request and position alone, to the bit."""


def tile_config(rows_per_tile: int, batch_invariant: bool) -> TileConfig:
    """The sizes for a step whose fullest tile would have so many rows."""
    if batch_invariant:
        return BATCH_INVARIANT
    for config in (DECODE, EXTEND):
        if rows_per_tile <= config.rows:
            return config
    return PREFILL

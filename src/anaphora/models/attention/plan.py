"""What attention on CPU reads and when, worked out once a pass: runs, gathers and tiles of every request."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from anaphora.models.attention.runs import slot_runs
from anaphora.models.attention.sharing import shared_runs
from anaphora.models.batch import ForwardBatch, SequenceSpan
from anaphora.models.kv_cache import PagedKVCache

QUERY_TILE = 128
"""Queries per tile. Larger ones compute more scores above the diagonal in vain, smaller ones make poorer products."""
MIN_MEAN_RUN = 384
"""Tokens. Below this mean length of a run, copying costs less than a part per run (measured: 256 to 512 break even)."""
MIN_SAVED = 512
"""Tokens. A shared run is one more part to join, which costs about as much as reading so many keys once more."""
MAX_BUNCHED = 128
"""Tokens. Single queries with at most so many keys of their own attend together (measured: 200 break even)."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Some cached keys and values: slices of the slots or, with ``gather_index``, of what is to be gathered first."""

    gather_index: torch.Tensor | None
    runs: tuple[slice, ...]


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """Keys that several requests see in full. ``rows``: of the flat batch, all queries of those requests."""

    rows: slice | torch.Tensor
    keys: Keys


@dataclass(frozen=True, slots=True)
class BunchPlan:
    """Single queries of ``S`` requests, each with up to ``K`` keys of its own."""

    rows: slice | torch.Tensor
    """``[S]``, of the flat batch."""
    gather_index: torch.Tensor
    """Of ``S * K`` slots; short requests repeat their last one."""
    mask: torch.Tensor
    """``[S, 1, 1, K]``: 0 where a request has a key, else minus infinity."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Neighbouring queries of one request."""

    rows: slice
    """Of the flat batch."""
    prefix: tuple[slice, ...]
    """Keys that every query of the tile sees, as in :class:`Keys`; a single query sees its own key there too."""


@dataclass(frozen=True, slots=True)
class SpanPlan:
    """A request's keys after those that it shares, and its queries as tiles."""

    gather_index: torch.Tensor | None
    tiles: tuple[Tile, ...]


@dataclass(frozen=True, slots=True)
class CpuPlan:
    """A batch, by what is read together. ``new_slots``: where its keys and values go, a slice if side by side."""

    new_slots: slice | torch.Tensor
    shared: tuple[SharedPlan, ...]
    bunch: BunchPlan | None
    spans: tuple[SpanPlan, ...]


def plan_batch(batch: ForwardBatch, kv: PagedKVCache) -> CpuPlan:
    """The cheapest way that is known here; every key that a query sees is in exactly one of its parts."""
    shared: list[SharedPlan] = []
    num_shared = [0] * len(batch.spans)  # tokens at the head of each request that a shared plan covers
    tables = [_sharable(span, kv.block_size) for span in batch.spans]
    for run in shared_runs(tables, MIN_SAVED // kv.block_size):
        members = [batch.spans[member] for member in run.members]
        blocks = members[0].block_table[run.start : run.end]
        rows = torch.cat([torch.arange(span.query_start, span.query_start + span.query_len) for span in members])
        slots = slot_runs(blocks, kv.block_size, len(blocks) * kv.block_size)
        shared.append(SharedPlan(_side_by_side(rows), Keys(*_read(slots, kv))))
        for member in run.members:
            num_shared[member] = run.end * kv.block_size
    own = list(zip(batch.spans, num_shared, strict=True))
    bunched = [pair for pair in own if pair[0].query_len == 1 and pair[0].kv_len - pair[1] <= MAX_BUNCHED]
    if len(bunched) < 2:
        bunched = []
    spans = tuple(_plan_span(*pair, kv) for pair in own if pair not in bunched)
    bunch = _plan_bunch(bunched, kv) if bunched else None
    return CpuPlan(_side_by_side(batch.slot_mapping), tuple(shared), bunch, spans)


def _sharable(span: SequenceSpan, block_size: int) -> Sequence[int]:
    """The blocks that all queries of the span see in full. None if it is long: then reading keys is not what costs."""
    if span.query_len > QUERY_TILE:
        return ()
    return span.block_table[: (span.kv_len - span.query_len) // block_size]


def _plan_bunch(bunched: Sequence[tuple[SequenceSpan, int]], kv: PagedKVCache) -> BunchPlan:
    num_keys = torch.tensor([span.kv_len - num_shared for span, num_shared in bunched]).unsqueeze(1)
    columns = torch.arange(int(num_keys.max()))
    slots = []
    for (span, num_shared), count in zip(bunched, num_keys, strict=True):
        tokens = num_shared + columns.clamp(max=count - 1)  # what lies behind was never written and may be NaN
        blocks = torch.tensor(span.block_table[: -(-span.kv_len // kv.block_size)])
        slots.append(blocks[tokens // kv.block_size] * kv.block_size + tokens % kv.block_size)
    mask = torch.zeros(len(bunched), len(columns), dtype=kv.dtype).masked_fill_(columns >= num_keys, -torch.inf)
    rows = torch.tensor([span.query_start for span, _ in bunched])
    return BunchPlan(_side_by_side(rows), kv.gather_index(torch.cat(slots)), mask[:, None, None])


def _plan_span(span: SequenceSpan, num_shared: int, kv: PagedKVCache) -> SpanPlan:
    first = span.kv_len - span.query_len - num_shared
    cuts = [*range(0, span.query_len, QUERY_TILE), span.query_len]
    tiles = list(pairwise(cuts))
    seen = [first + (end if end - start == 1 else start) for start, end in tiles]
    runs = slot_runs(span.block_table[num_shared // kv.block_size :], kv.block_size, max(seen))
    gather_index, read = _read(runs, kv)
    rows = [slice(span.query_start + start, span.query_start + end) for start, end in tiles]
    prefixes = [_clip(read, num_tokens) for num_tokens in seen]
    return SpanPlan(gather_index, tuple(Tile(*tile) for tile in zip(rows, prefixes, strict=True)))


def _read(runs: list[tuple[int, int]], kv: PagedKVCache) -> tuple[torch.Tensor | None, tuple[slice, ...]]:
    """How runs of slots are best read: what to gather first if they are short, and the slices."""
    num_tokens = sum(end - start for start, end in runs)
    if len(runs) > 1 and num_tokens < MIN_MEAN_RUN * len(runs):
        slots = torch.cat([torch.arange(start, end) for start, end in runs])
        return kv.gather_index(slots), (slice(0, num_tokens),)
    return None, tuple(slice(start, end) for start, end in runs)


def _clip(runs: Sequence[slice], num_tokens: int) -> tuple[slice, ...]:
    """The first ``num_tokens`` slots of the runs."""
    clipped = []
    for run in runs:
        if num_tokens <= 0:
            break
        clipped.append(slice(run.start, min(run.stop, run.start + num_tokens)))
        num_tokens -= run.stop - run.start
    return tuple(clipped)


def _side_by_side(rows: torch.Tensor) -> slice | torch.Tensor:
    """The slice that ``rows`` are, if they are one."""
    first = int(rows[0])
    last = first + len(rows)
    return slice(first, last) if torch.equal(rows, torch.arange(first, last)) else rows

"""Tiles, runs and gathers against the definition; and which blocks are read as views."""

import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anaphora.models.attention import plan as planning
from anaphora.models.attention.cpu import CpuAttention
from anaphora.models.attention.partial import PartialAttention, flash_partial, plain_partial
from anaphora.models.kv_cache import PagedKVCache
from tests.models.batches import BLOCK_SIZE, Piece, forward_batch, poison, slot

NUM_HEADS, NUM_KV_HEADS, HEAD_DIM, NUM_BLOCKS = 6, 2, 8, 40


def new_cache() -> PagedKVCache:
    kv = PagedKVCache(
        num_layers=1,
        num_kv_heads=NUM_KV_HEADS,
        head_dim=HEAD_DIM,
        num_blocks=NUM_BLOCKS,
        block_size=BLOCK_SIZE,
        dtype=torch.float32,
    )
    poison(kv.layer(0))
    return kv


def naive(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, first: int) -> torch.Tensor:
    """One query and one head at a time. ``queries [Q, NUM_HEADS, D]``, ``keys`` and ``values [K, NUM_KV_HEADS, D]``."""
    output = torch.empty_like(queries)
    for index, query in enumerate(queries):
        for head in range(NUM_HEADS):
            kv_head, seen = head // (NUM_HEADS // NUM_KV_HEADS), first + index + 1
            weights = (keys[:seen, kv_head] @ query[head] / math.sqrt(HEAD_DIM)).softmax(0)
            output[index, head] = weights @ values[:seen, kv_head]
    return output.flatten(1)


@st.composite
def requests(draw: st.DrawFn) -> list[Piece]:
    """Some requests in one pass, each with some tokens computed before, in blocks wherever; some share their heads.

    A shared block may be one that another request of the pass is computing. Equal blocks hold equal token ids.
    """
    free = draw(st.permutations(range(NUM_BLOCKS)))
    if draw(st.booleans()):
        free = sorted(free)
    pieces: list[Piece] = []
    for index in range(draw(st.integers(1, 5))):
        end = draw(st.integers(1, 7 * BLOCK_SIZE))
        start = end - 1 if draw(st.booleans()) else draw(st.integers(0, end - 1))
        parent = draw(st.sampled_from([Piece([], 0, 0, []), *pieces]))
        num_shared = draw(st.integers(0, min(start, parent.end) // BLOCK_SIZE))
        own = [free.pop() for _ in range(-(-end // BLOCK_SIZE) - num_shared)]
        head = num_shared * BLOCK_SIZE
        token_ids = [*parent.token_ids[:head], *range(1000 * index + head, 1000 * index + end)]
        pieces.append(Piece(token_ids, start, end, [*parent.block_table[:num_shared], *own]))
    return pieces


NESTED = [
    Piece(range(13), 12, 13, [0, 1, 2, 3]),
    Piece([*range(12), 100, 101], 12, 14, [0, 1, 2, 4]),
    Piece([*range(8), 200], 8, 9, [0, 1, 5]),
]
"""Three share two blocks, two of them a third."""


@settings(max_examples=150, deadline=None)
@example(pieces=NESTED, tile=20, min_mean_run=6, min_saved=1, max_bunched=6, partial=flash_partial)
@given(
    pieces=requests(),
    tile=st.integers(1, 20),
    min_mean_run=st.sampled_from([0, 6, 1000]),
    min_saved=st.sampled_from([1, 2 * BLOCK_SIZE, 1000]),
    max_bunched=st.sampled_from([0, 6, 1000]),
    partial=st.sampled_from([flash_partial, plain_partial]),
)
def test_equals_the_definition(
    pieces: list[Piece], tile: int, min_mean_run: int, min_saved: int, max_bunched: int, partial: PartialAttention
) -> None:
    kv, attention = new_cache(), CpuAttention(NUM_HEADS, NUM_KV_HEADS, partial)
    table = torch.randn(5000, NUM_HEADS + 2 * NUM_KV_HEADS, HEAD_DIM, generator=torch.Generator().manual_seed(0))
    tokens = [table[torch.tensor(piece.token_ids)] for piece in pieces]
    for piece, heads in zip(pieces, tokens, strict=True):  # what earlier passes left
        slots = torch.tensor([slot(piece.block_table, t) for t in range(piece.start)], dtype=torch.int64)
        kv.write(0, slots, heads[: piece.start, NUM_HEADS:])
    for piece in pieces:  # what this pass is to write, also where another request has it already
        kv.layer(0)[:, :, [slot(piece.block_table, t) for t in range(piece.start, piece.end)]] = torch.nan
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "QUERY_TILE", tile)
        patch.setattr(planning, "MIN_MEAN_RUN", min_mean_run)
        patch.setattr(planning, "MIN_SAVED", min_saved)
        patch.setattr(planning, "MAX_BUNCHED", max_bunched)
        plan = attention.plan(forward_batch(pieces), kv)
    new = torch.cat([heads[piece.start :] for piece, heads in zip(pieces, tokens, strict=True)])
    output = attention.run(plan, 0, new, kv)
    expected = []
    for piece, heads in zip(pieces, tokens, strict=True):
        queries, keys, values = torch.split(heads, [NUM_HEADS, NUM_KV_HEADS, NUM_KV_HEADS], dim=1)
        expected.append(naive(queries[piece.start :], keys, values, piece.start))
    torch.testing.assert_close(output, torch.cat(expected), rtol=0, atol=1e-5)


def plan_of(piece: Piece) -> tuple[torch.Tensor | None, list[tuple[slice, tuple[slice, ...]]]]:
    plan = CpuAttention(NUM_HEADS, NUM_KV_HEADS, flash_partial).plan(forward_batch([piece]), new_cache())
    (span,) = plan.spans
    return span.gather_index, [(tile.rows, tile.prefix) for tile in span.tiles]


def test_blocks_that_lie_together_are_one_view() -> None:
    gather, tiles = plan_of(Piece([0] * 40, 32, 40, range(3, 13)))
    assert gather is None
    assert tiles == [(slice(0, 8), (slice(12, 44),))]


def test_a_single_query_sees_its_own_key_in_the_cache() -> None:
    gather, tiles = plan_of(Piece([0] * 33, 32, 33, range(3, 13)))
    assert gather is None
    assert tiles == [(slice(0, 1), (slice(12, 45),))]


def test_a_cold_prompt_reads_the_cache_only_for_earlier_tiles() -> None:
    _, tiles = plan_of(Piece([0] * 150, 0, 150, range(1, 39)))
    assert tiles == [(slice(0, 128), ()), (slice(128, 150), (slice(4, 132),))]


def test_few_runs_are_parts_and_many_are_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    piece = Piece([0] * 18, 16, 18, [9, 10, 4, 5, 6])
    monkeypatch.setattr(planning, "MIN_MEAN_RUN", 8)
    gather, tiles = plan_of(piece)
    assert gather is None
    assert tiles == [(slice(0, 2), (slice(36, 44), slice(16, 24)))]
    monkeypatch.setattr(planning, "MIN_MEAN_RUN", 9)
    gather, tiles = plan_of(piece)
    assert gather is not None
    slots = [*range(36, 44), *range(16, 24)]
    assert gather.tolist() == [
        head * NUM_BLOCKS * BLOCK_SIZE + slot for head in range(2 * NUM_KV_HEADS) for slot in slots
    ]
    assert tiles == [(slice(0, 2), (slice(0, 16),))]


def test_new_keys_that_go_side_by_side_are_written_as_one_slice() -> None:
    attention, kv = CpuAttention(NUM_HEADS, NUM_KV_HEADS, flash_partial), new_cache()
    together = attention.plan(forward_batch([Piece([0] * 9, 2, 9, [5, 6, 7])]), kv)
    assert together.new_slots == slice(22, 29)
    apart = attention.plan(forward_batch([Piece([0] * 9, 2, 9, [5, 7, 6])]), kv)
    assert isinstance(apart.new_slots, torch.Tensor)
    assert apart.new_slots.tolist() == [22, 23, 28, 29, 30, 31, 24]


def test_what_decodes_and_prefills_share_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "MIN_SAVED", 2 * BLOCK_SIZE)
    pieces = [
        Piece([0] * 15, 14, 15, [3, 4, 5, 9]),
        Piece([0] * 11, 8, 11, [3, 4, 7]),
        Piece([0] * 18, 17, 18, [3, 4, 5, 6, 8]),
        Piece([0] * 200, 12, 200, [3, 4, 5, *range(10, 57)]),
    ]
    plan = CpuAttention(NUM_HEADS, NUM_KV_HEADS, flash_partial).plan(forward_batch(pieces), new_cache())
    (shared,) = plan.shared
    assert shared.rows == slice(0, 5)
    assert shared.keys == planning.Keys(None, (slice(12, 20),))
    assert plan.bunch is not None
    assert torch.as_tensor(plan.bunch.rows).tolist() == [0, 4]
    assert plan.bunch.mask[:, 0, 0].isinf().logical_not().sum(1).tolist() == [7, 10]
    short, long = plan.spans
    assert [(tile.rows, tile.prefix) for tile in short.tiles] == [(slice(1, 4), ())]
    assert long.gather_index is not None  # the long prefill reads everything itself
    assert [tile.prefix for tile in long.tiles] == [(slice(0, 12),), (slice(0, 140),)]


def test_one_request_is_neither_shared_nor_bunched() -> None:
    plan = CpuAttention(NUM_HEADS, NUM_KV_HEADS, flash_partial).plan(
        forward_batch([Piece([0] * 40, 39, 40, range(10))]), new_cache()
    )
    assert plan.shared == ()
    assert plan.bunch is None

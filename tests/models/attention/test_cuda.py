"""The CUDA kernels in Triton's interpreter against float64: borders of blocks, mixed batches, shared trees."""

import math
import random
from dataclasses import replace

import pytest
import torch

from anaphora.models.attention.prefixes import SharingCost, find_shared_runs
from anaphora.models.attention.sharing import SharedRun
from anaphora.models.batch import ForwardBatch, SequenceSpan
from anaphora.models.kv_cache import PagedKVCache
from tests.models.kernels import interpreter  # noqa: F401  # skips where kernels cannot be run

from anaphora.models.attention import cuda, tiles  # isort: skip
from anaphora.models.attention.cuda import CudaAttention  # isort: skip

NUM_HEADS, NUM_KV_HEADS, BLOCK_SIZE, NUM_BLOCKS = 6, 2, 16, 64
LENGTHS = (1, 15, 16, 17, 31, 32, 33, 49, 100)
CHEAP = SharingCost(per_run=8, per_query=1, max_query_len=20)
"""So that small runs are shared too."""


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles and splits so small that few tokens need many of them."""
    monkeypatch.setattr(cuda, "SHARING", CHEAP)
    monkeypatch.setattr(tiles, "FIXED_SPLIT", 32)
    small = {name: replace(config, rows=min(config.rows, 32), columns=32) for name, config in tiles.HOPPER.items()}
    monkeypatch.setattr(tiles, "HOPPER", small)


def attention(head_dim: int, *, batch_invariant: bool = False) -> CudaAttention:
    return CudaAttention(
        num_heads=NUM_HEADS,
        num_kv_heads=NUM_KV_HEADS,
        head_dim=head_dim,
        block_size=BLOCK_SIZE,
        device=torch.device("cpu"),
        num_sms=8,
        dtype=torch.float32,
        batch_invariant=batch_invariant,
    )


def random_spans(source: random.Random) -> list[SequenceSpan]:
    """Some requests with blocks anywhere; some share their heads with another, and that one with a third."""
    free = source.sample(range(NUM_BLOCKS), NUM_BLOCKS)
    spans: list[SequenceSpan] = []
    start = 0
    for _ in range(source.randint(2, 5)):
        kv_len = source.choice(LENGTHS)
        query_len = source.choice([1, 1, min(3, kv_len), min(17, kv_len), kv_len])
        table: list[int] = []
        if spans and source.random() < 0.7:
            parent = source.choice(spans).block_table
            table = list(parent[: source.randint(0, min(len(parent), (kv_len - query_len) // BLOCK_SIZE))])
        table += [free.pop() for _ in range(-(-kv_len // BLOCK_SIZE) - len(table))]
        spans.append(SequenceSpan(start, query_len, kv_len, table))
        start += query_len
    return spans


def slots_of(span: SequenceSpan, first: int = 0) -> list[int]:
    """Where the request's tokens from ``first`` on lie."""
    return [span.block_table[t // BLOCK_SIZE] * BLOCK_SIZE + t % BLOCK_SIZE for t in range(first, span.kv_len)]


def batch_of(spans: list[SequenceSpan]) -> ForwardBatch:
    slots = [slot for span in spans for slot in slots_of(span, span.kv_len - span.query_len)]
    nothing = torch.empty(0, dtype=torch.int64)
    return ForwardBatch(nothing, nothing, torch.tensor(slots), tuple(spans), nothing)


def filled_cache(spans: list[SequenceSpan], head_dim: int, dtype: torch.dtype) -> PagedKVCache:
    """Random keys and values where the requests' tokens lie, NaN elsewhere."""
    kv = PagedKVCache(
        num_layers=1,
        num_kv_heads=NUM_KV_HEADS,
        head_dim=head_dim,
        num_blocks=NUM_BLOCKS,
        block_size=BLOCK_SIZE,
        dtype=dtype,
    )
    kv.layer(0).fill_(math.nan)
    for span in spans:
        slots = slots_of(span)
        kv.layer(0)[:, :, slots] = torch.randn(2, NUM_KV_HEADS, len(slots), head_dim).to(dtype)
    return kv


def expected(queries: torch.Tensor, span: SequenceSpan, kv: PagedKVCache) -> torch.Tensor:
    """Float64 attention of one request, ``queries`` ``[Q, NUM_HEADS, D]``."""
    keys, values = kv.layer(0)[:, :, slots_of(span)].double().repeat_interleave(NUM_HEADS // NUM_KV_HEADS, 1)
    scores = queries.double().transpose(0, 1) @ keys.transpose(1, 2) / math.sqrt(queries.shape[-1])
    position = torch.arange(span.kv_len - span.query_len, span.kv_len).unsqueeze(1)
    scores.masked_fill_(torch.arange(span.kv_len) > position, -math.inf)
    mixed: torch.Tensor = scores.softmax(-1) @ values
    return mixed.transpose(0, 1)


@pytest.mark.parametrize("head_dim", [64, 96, 128])
@pytest.mark.parametrize("batch_invariant", [False, True])
def test_random_steps_equal_float64_attention(head_dim: int, batch_invariant: bool) -> None:
    seed = random.randrange(10**6)
    spans = random_spans(random.Random(seed))
    torch.manual_seed(seed)
    kv = filled_cache(spans, head_dim, torch.float32)
    batch = batch_of(spans)
    heads = torch.randn(len(batch.slot_mapping), NUM_HEADS + 2 * NUM_KV_HEADS, head_dim)
    ours = attention(head_dim, batch_invariant=batch_invariant)
    result = ours.run(ours.plan(batch, kv), 0, heads, kv)
    for span in spans:
        rows = slice(span.query_start, span.query_start + span.query_len)
        wanted = expected(heads[rows, :NUM_HEADS], span, kv).flatten(1)
        assert torch.allclose(result[rows].double(), wanted, rtol=1e-4, atol=1e-5), (seed, span)


def test_a_tree_of_sharing_in_a_padded_step() -> None:
    """Two levels of sharing, one request apart, a step padded to its bucket: only the requests' rows are written."""
    tables = [[1, 2, 3, 4, 5], [1, 2, 3, 4, 6], [1, 2, 7, 8], [9, 10]]
    lengths = [70, 66, 50, 20]
    spans = [SequenceSpan(row, 1, *pair) for row, pair in enumerate(zip(lengths, tables, strict=True))]
    runs = [SharedRun((0, 1, 2), 0, 2), SharedRun((0, 1), 2, 4)]
    assert find_shared_runs(spans, BLOCK_SIZE, CHEAP) == runs
    kv = filled_cache(spans, 64, torch.float32)
    ours = attention(64)
    plan = ours.plan_spans(spans)
    tensors, workspace = ours.send(plan), ours.workspace(64)
    workspace.parts.fill_(math.nan)
    behind = torch.full((2,), plan.num_parts, dtype=torch.int32)  # padding has no parts
    work = torch.nn.functional.pad(tensors.work, (0, 64), value=-7)
    tensors = replace(tensors, work=work, part_start=torch.cat([tensors.part_start, behind]))
    queries, out = torch.randn(6, NUM_HEADS, 64), torch.full((6, NUM_HEADS, 64), math.nan)
    ours.attend(tensors, workspace, plan.config, queries, kv.layer(0), out)
    for row, span in enumerate(spans):
        assert torch.allclose(out[row : row + 1].double(), expected(queries[row : row + 1], span, kv), atol=1e-5)
    assert out[4:].isnan().all()

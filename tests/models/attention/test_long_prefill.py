"""Long prefills through the seam, with a dense attention of our own in place of the library's."""

import logging
import math

import numpy as np
import pytest
import torch

from anaphora.models.batch import SequenceSpan
from tests.models.kernels import interpreter  # noqa: F401  # skips where kernels cannot be run

from anaphora.models.attention import cuda, long_prefill  # isort: skip
from anaphora.models.attention.cuda import CudaAttention  # isort: skip
from anaphora.models.kernels import fold  # isort: skip
from anaphora.models.attention.long_prefill import (  # isort: skip
    MIN_NEW,
    LongPrefill,
    find_dense_attention,
    padded_length,
    split_long,
)

NUM_HEADS, NUM_KV_HEADS, DIM, BLOCK_SIZE = 4, 2, 8, 4


def dense(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """By the definition; top-left causal."""
    keys, values = (x.repeat_interleave(NUM_HEADS // NUM_KV_HEADS, 1) for x in (keys, values))
    scores = queries @ keys.transpose(2, 3) / math.sqrt(DIM)
    if causal:
        hidden = torch.arange(keys.shape[2]) > torch.arange(queries.shape[2]).unsqueeze(1)
        scores = scores.masked_fill(hidden, -math.inf)
    mixed = (scores.softmax(-1) @ values).transpose(1, 2).contiguous().transpose(1, 2)
    return mixed, scores.logsumexp(-1, keepdim=True)


@pytest.fixture(autouse=True)
def small_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_prefill, "PIECES", (16, 4))
    monkeypatch.setattr(long_prefill, "padded_length", lambda num_queries: -(-num_queries // 8) * 8)


@pytest.mark.parametrize(("query_len", "kv_len"), [(8, 8), (5, 5), (5, 12), (9, 31), (3, 26), (4, 40), (5, 51)])
@pytest.mark.parametrize("scattered", [False, True])
def test_a_request_equals_dense_attention_over_all_its_keys(query_len: int, kv_len: int, scattered: bool) -> None:
    num_blocks = 14
    table = torch.randperm(num_blocks).tolist() if scattered else list(range(num_blocks))
    span = SequenceSpan(2, query_len, kv_len, table)
    cache = torch.full((2, NUM_KV_HEADS, num_blocks * BLOCK_SIZE, DIM), math.nan)
    slots = [table[t // BLOCK_SIZE] * BLOCK_SIZE + t % BLOCK_SIZE for t in range(kv_len)]
    cache[:, :, slots] = torch.randn(2, NUM_KV_HEADS, kv_len, DIM)
    queries, out = torch.randn(query_len + 3, NUM_HEADS, DIM), torch.full((query_len + 3, NUM_HEADS, DIM), math.nan)
    prefill = LongPrefill(dense, BLOCK_SIZE, torch.device("cpu"))
    prefill.run(prefill.plan(span), queries, cache, out)

    every = torch.zeros(1, NUM_HEADS, kv_len, DIM)
    every[0, :, kv_len - query_len :] = queries[2 : 2 + query_len].transpose(0, 1)
    wanted, _ = dense(every, cache[:1, :, slots], cache[1:, :, slots], True)
    assert torch.allclose(out[2 : 2 + query_len].transpose(0, 1), wanted[0, :, kv_len - query_len :], atol=1e-5)
    assert out[:2].isnan().all()
    assert out[2 + query_len :].isnan().all()


def test_neighbouring_blocks_are_read_in_place() -> None:
    prefill = LongPrefill(dense, BLOCK_SIZE, torch.device("cpu"))
    plan = prefill.plan(SequenceSpan(0, 8, 24, np.arange(3, 9)))  # type: ignore[arg-type]
    assert [piece.slots for piece in plan.pieces] == [slice(12, 28), slice(28, 36)]


def test_what_lies_behind_the_last_token_is_not_read() -> None:
    """It is another request's, or nobody's yet."""
    prefill = LongPrefill(dense, BLOCK_SIZE, torch.device("cpu"))
    plan = prefill.plan(SequenceSpan(0, 7, 23, np.arange(3, 9)))  # type: ignore[arg-type]
    assert [piece.slots for piece in plan.pieces] == [slice(12, 28), None]


@pytest.mark.parametrize(("query_len", "kv_len"), [(8, 8), (5, 5), (5, 12), (9, 31), (4, 39)])
@pytest.mark.parametrize("beyond", [0, 1])
def test_queries_with_room_around_them_are_read_in_place(query_len: int, kv_len: int, beyond: int) -> None:
    """What the room holds matters to nobody. With a row too few they are copied."""
    num_blocks, read_at = 14, list[int]()

    def noting(
        queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, causal: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        read_at.append(queries.data_ptr())
        return dense(queries, keys, values, causal)

    prefill = LongPrefill(noting, BLOCK_SIZE, torch.device("cpu"))
    plan = prefill.plan(SequenceSpan(0, query_len, kv_len, torch.randperm(num_blocks).tolist()))
    cache = torch.randn(2, NUM_KV_HEADS, num_blocks * BLOCK_SIZE, DIM)
    before, behind = max(plan.rest - beyond, 0), plan.num_queries - plan.rest - query_len
    around = torch.full((before + query_len + behind, NUM_HEADS, DIM), math.nan)
    queries = torch.randn(query_len, NUM_HEADS, DIM)
    around[before : before + query_len] = queries
    mixed = prefill.run(plan, around[before : before + query_len], cache)
    assert ({*read_at} == {around.data_ptr()}) == (before == plan.rest)
    assert torch.allclose(mixed, prefill.run(plan, queries, cache, torch.empty_like(queries)), atol=1e-6)
    assert plan.margin == max(plan.rest, behind)


@pytest.mark.parametrize(("query_len", "kv_len"), [(13, 13), (9, 30)])
def test_a_step_that_is_one_long_prefill_is_attended_alone(
    query_len: int, kv_len: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "find_dense_attention", lambda *_: dense)
    monkeypatch.setattr(long_prefill, "MIN_NEW", 8)
    attention = CudaAttention(
        num_heads=NUM_HEADS, num_kv_heads=NUM_KV_HEADS, head_dim=DIM, block_size=BLOCK_SIZE,
        device=torch.device("cpu"), num_sms=8, dtype=torch.float32,
    )  # fmt: skip
    long, short = SequenceSpan(0, query_len, kv_len, list(range(8))), SequenceSpan(query_len, 1, 5, [8, 9])
    cache, queries = torch.randn(2, NUM_KV_HEADS, 64, DIM), torch.randn(query_len + 1, NUM_HEADS, DIM)
    alone, mixed = attention.plan_spans([long]), attention.plan_spans([long, short])
    assert (alone.num_tasks, alone.num_parts) == (0, 0)
    assert mixed.num_tasks > 0
    assert alone.margin == mixed.margin > 0
    got = attention.attend_alone(alone.beside, queries[:query_len], cache)
    assert attention.attend_alone(mixed.beside, queries, cache) is None
    out = torch.full_like(queries, math.nan)
    attention.attend_beside(mixed.beside, queries, cache, out)
    assert got is not None
    torch.testing.assert_close(got, out[:query_len])
    assert out[query_len].isnan().all()


def test_only_many_new_tokens_are_long() -> None:
    prefill = LongPrefill(dense, BLOCK_SIZE, torch.device("cpu"))
    short, long = SequenceSpan(0, MIN_NEW - 1, 9000, []), SequenceSpan(MIN_NEW - 1, MIN_NEW, MIN_NEW, [])
    assert split_long([short, long], prefill) == ([long], [short])
    assert split_long([short, long], None) == ([], [short, long])


def test_shapes_are_few() -> None:
    assert [padded_length(length) for length in (1024, 1025, 4096, 4097, 8192)] == [1024, 1152, 4096, 4608, 8192]


def test_warming_up_builds_every_causal_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_prefill, "padded_length", padded_length)
    lengths: list[int] = []

    def recording(
        queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, causal: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        lengths.append(queries.shape[2])
        return queries, queries[..., :1]

    LongPrefill(recording, BLOCK_SIZE, torch.device("cpu")).warm_up(1, 1, 8, torch.float32, 3000, 17)
    assert lengths == [*range(1152, 3073, 128), 3072, 3072]


def test_warming_up_joins_in_every_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way is a kernel of its own: a request would wait for its compilation."""
    kinds: set[tuple[int, torch.dtype, torch.dtype]] = set()

    def noting(stretches: list[fold.Stretch], out: torch.Tensor, *_: object) -> None:
        kinds.add((len(stretches), stretches[0][0].dtype, out.dtype))

    monkeypatch.setattr(fold, "_launch", noting)
    LongPrefill(dense, BLOCK_SIZE, torch.device("cpu")).warm_up(4, 2, 8, torch.float16, 0, 0)
    warm = set(kinds)
    stretch = torch.zeros(3, 4, 8, dtype=torch.float16), torch.zeros(4, 3)
    for number in range(2, 20):
        fold.fold([stretch] * number, torch.zeros(3, 4, 8, dtype=torch.float16))
    assert kinds == warm


def test_without_the_library_a_line_says_so(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise RuntimeError("no such kernel\nand more")

    monkeypatch.setattr(long_prefill, "cudnn_attention", missing)
    monkeypatch.setattr(torch, "zeros", lambda *_, **__: None)
    with caplog.at_level(logging.WARNING):
        assert find_dense_attention(4, 2, 8, torch.bfloat16, torch.device("cuda")) is None
    assert [record.getMessage() for record in caplog.records] == [
        "long prefills use our own attention kernel: cuDNN's does not run here (no such kernel)"
    ]


def test_nothing_is_asked_on_cpu() -> None:
    assert find_dense_attention(4, 2, 8, torch.bfloat16, torch.device("cpu")) is None

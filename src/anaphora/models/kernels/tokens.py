"""Ids to hidden states at a pass's start, hidden states to ids at its end; and cached tokens from slot to slot."""

import torch
import triton
import triton.language as tl

from anaphora.models.kernels.launch import launch

COLUMNS = 1024
"""Elements of one program of a row copy."""
CHUNK = 4096
"""Logits that one program of the argmax looks at."""
VECTORS = 8
"""Vectors that one program moves from slot to slot."""
TOKENS = 32
"""Tokens whose keys or values of one head one program gathers."""


@triton.jit
def gather_rows_kernel(table, rows, earlier, out, width, COLUMNS: tl.constexpr):
    """A run of columns of one row. A negative row number ``-1 - i`` stands for ``earlier[i]``."""
    target = tl.program_id(0).to(tl.int64)
    row = tl.load(rows + target).to(tl.int64)
    row = tl.where(row < 0, tl.load(earlier + (-1 - row), mask=row < 0, other=0).to(tl.int64), row)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    value = tl.load(table + row * width + column, mask=inside, other=0.0)
    tl.store(out + target * width + column, value.to(out.dtype.element_ty), mask=inside)


def gather_rows(
    table: torch.Tensor, rows: torch.Tensor, out: torch.Tensor, earlier: torch.Tensor | None = None
) -> None:
    """``out[i] = table[rows[i]]``: embeddings of token ids, or the rows of a batch whose logits are wanted.

    ``table`` ``[N, width]``, ``out`` ``[R, width]``, ``rows`` ``[R]`` integer. With ``earlier``, a token id that the
    host does not know yet is given as ``-1 - i`` and read from ``earlier[i]``: the ids that the step before sampled.
    """
    num_rows, width = out.shape
    launch(
        gather_rows_kernel,
        (num_rows, triton.cdiv(width, COLUMNS)),
        table,
        rows,
        rows if earlier is None else earlier,
        out,
        width,
        COLUMNS=COLUMNS,
        num_warps=4,
    )


@triton.jit
def chunk_argmax_kernel(logits, best, best_ids, vocab_size, CHUNK: tl.constexpr):
    """The largest logit of a chunk of one row, and the lowest id that has it. Programs on axis 1 are chunks."""
    row = tl.program_id(0).to(tl.int64)
    ids = tl.program_id(1) * CHUNK + tl.arange(0, CHUNK)
    value = tl.load(logits + row * vocab_size + ids, mask=ids < vocab_size, other=float("-inf")).to(tl.float32)
    largest = tl.max(value, 0)
    first = tl.min(tl.where(value == largest, ids, 2147483647), 0)
    at = row * tl.num_programs(1) + tl.program_id(1)
    tl.store(best + at, largest)
    tl.store(best_ids + at, first)


@triton.jit
def merge_argmax_kernel(best, best_ids, out, num_chunks, PADDED: tl.constexpr):
    """The best of one row's chunks."""
    row = tl.program_id(0)
    chunk = tl.arange(0, PADDED)
    inside = chunk < num_chunks
    value = tl.load(best + row * num_chunks + chunk, mask=inside, other=float("-inf"))
    ids = tl.load(best_ids + row * num_chunks + chunk, mask=inside, other=2147483647)
    first = tl.min(tl.where(value == tl.max(value, 0), ids, 2147483647), 0)
    tl.store(out + row, first.to(out.dtype.element_ty))


class Argmax:
    """Greedy sampling of up to ``max_rows`` rows of ``vocab_size`` logits; of equal ones the lowest id wins."""

    def __init__(self, max_rows: int, vocab_size: int, device: torch.device) -> None:
        self._num_chunks = triton.cdiv(vocab_size, CHUNK)
        shape = (max_rows, self._num_chunks)
        self._best = torch.empty(shape, dtype=torch.float32, device=device)
        self._best_ids = torch.empty(shape, dtype=torch.int32, device=device)

    def __call__(self, logits: torch.Tensor, out: torch.Tensor) -> None:
        """``logits`` ``[R, vocab_size]`` contiguous, without NaN, to ``out`` ``[R]`` integer."""
        num_rows, vocab_size = logits.shape
        launch(
            chunk_argmax_kernel,
            (num_rows, self._num_chunks),
            logits,
            self._best,
            self._best_ids,
            vocab_size,
            CHUNK=CHUNK,
            num_warps=4,
        )
        launch(
            merge_argmax_kernel,
            (num_rows,),
            self._best,
            self._best_ids,
            out,
            self._num_chunks,
            PADDED=triton.next_power_of_2(self._num_chunks),
            num_warps=1,
        )


@triton.jit
def move_slots_kernel(
    storage, pairs, num_slots, num_vectors, VECTORS: tl.constexpr, DIM: tl.constexpr, PADDED: tl.constexpr
):
    """Some vectors of one token, from a slot to another."""
    pair = pairs + 2 * tl.program_id(0)
    source, target = tl.load(pair).to(tl.int64), tl.load(pair + 1).to(tl.int64)
    vector = (tl.program_id(1) * VECTORS + tl.arange(0, VECTORS)).to(tl.int64)
    column = tl.arange(0, PADDED)
    inside = (vector < num_vectors)[:, None] & (column < DIM)[None, :]
    first = storage + (vector * num_slots)[:, None] * DIM + column[None, :]
    value = tl.load(first + source * DIM, mask=inside, other=0.0)
    tl.store(first + target * DIM, value, mask=inside)


def move_slots(storage: torch.Tensor, pairs: torch.Tensor) -> None:
    """``storage[..., target, :] = storage[..., source, :]`` for each ``(source, target)`` of ``pairs``.

    ``storage`` ``[..., num_slots, head_dim]`` contiguous; ``pairs`` ``[n, 2]`` int32, in which no slot is both a source
    and a target of others.
    """
    num_slots, dim = storage.shape[-2:]
    num_vectors = storage.numel() // (num_slots * dim)
    launch(
        move_slots_kernel,
        (len(pairs), triton.cdiv(num_vectors, VECTORS)),
        storage,
        pairs,
        num_slots,
        num_vectors,
        VECTORS=VECTORS,
        DIM=dim,
        PADDED=triton.next_power_of_2(dim),
        num_warps=2,
    )


@triton.jit(do_not_specialize=["start", "last", "num_tokens", "num_slots"])
def gather_tokens_kernel(
    cache, table, out, start, last, num_tokens, num_slots,
    BLOCK_SIZE: tl.constexpr, TOKENS: tl.constexpr, DIM: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """Some tokens of a request, of the keys or values of one head (axis 1)."""
    place = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    token = tl.minimum(start + place, last)
    slot = tl.load(table + token // BLOCK_SIZE) * BLOCK_SIZE + token % BLOCK_SIZE
    column = tl.arange(0, PADDED)
    inside = (place < num_tokens)[:, None] & (column < DIM)[None, :]
    head = tl.program_id(1).to(tl.int64)
    value = tl.load(cache + (head * num_slots + slot)[:, None] * DIM + column[None, :], mask=inside, other=0.0)
    tl.store(out + (head * num_tokens + place)[:, None] * DIM + column[None, :], value, mask=inside)


def gather_tokens(
    cache: torch.Tensor, table: torch.Tensor, block_size: int, start: int, last: int, out: torch.Tensor
) -> None:
    """Keys and values of a request's tokens from ``start`` on to ``out`` ``[2, num_kv_heads, K, head_dim]``; behind its
    token ``last``, that one again.

    ``cache`` ``[2, num_kv_heads, num_slots, head_dim]``; ``table``: the request's blocks, integer. Both contiguous.
    """
    _, num_kv_heads, num_tokens, dim = out.shape
    launch(
        gather_tokens_kernel,
        (triton.cdiv(num_tokens, TOKENS), 2 * num_kv_heads),
        cache,
        table,
        out,
        start,
        last,
        num_tokens,
        cache.shape[2],
        BLOCK_SIZE=block_size,
        TOKENS=TOKENS,
        DIM=dim,
        PADDED=triton.next_power_of_2(dim),
        num_warps=4,
    )

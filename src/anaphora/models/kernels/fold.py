"""Joining what queries got from two stretches of keys, by the log-sum-exp of their scores."""

import torch
import triton
import triton.language as tl


@triton.jit
def fold_kernel(
    mixed, lse, other, other_lse, row_stride, head_stride, num_rows, DIM: tl.constexpr, PADDED: tl.constexpr
):
    """One head of one query, in place."""
    row, head = tl.program_id(0), tl.program_id(1)
    dim = tl.arange(0, PADDED)
    at = row.to(tl.int64) * row_stride + head * head_stride + dim
    place = head * num_rows + row
    one, two = tl.load(lse + place), tl.load(other_lse + place)
    largest = tl.maximum(one, two)
    first, second = tl.exp(one - largest), tl.exp(two - largest)
    total = first + second
    here = tl.load(mixed + at, mask=dim < DIM, other=0.0).to(tl.float32)
    there = tl.load(other + at, mask=dim < DIM, other=0.0).to(tl.float32)
    joined = (here * first + there * second) / total
    tl.store(mixed + at, joined.to(mixed.dtype.element_ty), mask=dim < DIM)
    tl.store(lse + place, largest + tl.log(total))


def fold(mixed: torch.Tensor, lse: torch.Tensor, other: torch.Tensor, other_lse: torch.Tensor) -> None:
    """Join ``other`` into ``mixed``, and its log-sum-exp into ``lse``.

    ``mixed``, ``other``: ``[S, num_heads, head_dim]``, with the same strides, the last 1; ``lse``, ``other_lse``:
    ``[num_heads, S]`` float32, contiguous, natural logarithm.
    """
    num_rows, num_heads, dim = mixed.shape
    assert mixed.stride() == other.stride(), (mixed.stride(), other.stride())
    fold_kernel[(num_rows, num_heads)](
        mixed,
        lse,
        other,
        other_lse,
        mixed.stride(0),
        mixed.stride(1),
        num_rows,
        DIM=dim,
        PADDED=triton.next_power_of_2(dim),
        num_warps=1,
    )

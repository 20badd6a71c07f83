"""Joining what queries got from several stretches of keys, by the log-sum-exp of their scores."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from anaphora.models.kernels.launch import launch

MAX_STRETCHES = 4
"""Joined by one launch."""
HEADS = 4
"""Of one program."""

Stretch = tuple[torch.Tensor, torch.Tensor]
"""What ``S`` queries got, ``[S, num_heads, head_dim]``, and the log-sum-exp of their scores, ``[num_heads, S]`` float32
(natural logarithm, contiguous)."""


@triton.jit(do_not_specialize=["skipped"])  # any number of rows: none of them waits for a compiler
def fold_kernel(
    first, second, third, fourth, first_lse, second_lse, third_lse, fourth_lse, out, out_lse,
    row_stride, head_stride, num_rows, skipped,
    COUNT: tl.constexpr, NUM_HEADS: tl.constexpr, HEADS: tl.constexpr, DIM: tl.constexpr, PADDED: tl.constexpr,
    KEEPS_LSE: tl.constexpr,
):  # fmt: skip
    """Some heads of one query, from ``COUNT`` stretches. ``skipped``: rows of the stretches before ``out``'s first."""
    row = skipped + tl.program_id(0)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    dim = tl.arange(0, PADDED)
    real = head < NUM_HEADS
    inside = real[:, None] & (dim < DIM)[None, :]
    at = row.to(tl.int64) * row_stride + (head * head_stride)[:, None] + dim[None, :]
    place = head * num_rows + row
    lse = tl.load(first_lse + place, mask=real, other=0.0)
    mixed = tl.load(first + at, mask=inside, other=0.0).to(tl.float32)
    for number in tl.static_range(1, COUNT):
        if number == 1:
            there, there_lse = second, second_lse
        elif number == 2:
            there, there_lse = third, third_lse
        else:
            there, there_lse = fourth, fourth_lse
        other = tl.load(there_lse + place, mask=real, other=0.0)
        largest = tl.maximum(lse, other)
        here, more = tl.exp(lse - largest), tl.exp(other - largest)
        total = here + more
        value = tl.load(there + at, mask=inside, other=0.0).to(tl.float32)
        mixed = mixed * (here / total)[:, None] + value * (more / total)[:, None]
        lse = largest + tl.log(total)
    target = (row - skipped).to(tl.int64) * NUM_HEADS * DIM + (head * DIM)[:, None] + dim[None, :]
    tl.store(out + target, mixed.to(out.dtype.element_ty), mask=inside)
    if KEEPS_LSE:
        tl.store(out_lse + place, lse, mask=real)


def fold(stretches: Sequence[Stretch], out: torch.Tensor, skipped: int = 0) -> None:
    """Join one or more stretches, which have the same strides, in their order, to ``out`` ``[N, num_heads, head_dim]``.

    ``out`` is contiguous; its first row is row ``skipped`` of the stretches. However many these are, the result is
    rounded once.
    """
    rest = list(stretches)
    while len(rest) > MAX_STRETCHES:
        mixed, lse = rest[0]
        joined = mixed.new_empty(mixed.shape, dtype=torch.float32), torch.empty_like(lse)
        _launch(rest[:MAX_STRETCHES], joined[0], joined[1], 0)
        # the next launch reads all with the strides of its first
        rest = [joined, *((other.contiguous(), other_lse) for other, other_lse in rest[MAX_STRETCHES:])]
    _launch(rest, out, None, skipped)


def warm_up(num_heads: int, head_dim: int, dtype: torch.dtype, device: torch.device) -> None:
    """Join as few and as many stretches as there may be, so that no request waits for a compiler."""
    mixed = torch.zeros(16, num_heads, head_dim, dtype=dtype, device=device)
    stretch = mixed, torch.zeros(num_heads, 16, device=device)
    for number in range(2, 2 * MAX_STRETCHES + 1):
        fold([stretch] * number, torch.empty_like(mixed))


def _launch(stretches: Sequence[Stretch], out: torch.Tensor, out_lse: torch.Tensor | None, skipped: int) -> None:
    mixed, lse = stretches[0]
    assert all(other.stride() == mixed.stride() for other, _ in stretches), [o.stride() for o, _ in stretches]
    assert out.is_contiguous()
    num_rows, num_heads, dim = mixed.shape
    padded = [*stretches, *[stretches[0]] * (MAX_STRETCHES - len(stretches))]
    launch(
        fold_kernel,
        (len(out), triton.cdiv(num_heads, HEADS)),
        *(other for other, _ in padded),
        *(other_lse for _, other_lse in padded),
        out,
        lse if out_lse is None else out_lse,
        mixed.stride(0),
        mixed.stride(1),
        num_rows,
        skipped,
        COUNT=len(stretches),
        NUM_HEADS=num_heads,
        HEADS=HEADS,
        DIM=dim,
        PADDED=triton.next_power_of_2(dim),
        KEEPS_LSE=out_lse is not None,
        num_warps=2,
    )

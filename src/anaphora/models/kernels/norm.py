"""RMSNorm, plain and fused with the addition before it."""

import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm_kernel(
    x, residual, weight, out, eps, WIDTH: tl.constexpr, PADDED: tl.constexpr, HAS_RESIDUAL: tl.constexpr
):
    """One row a program. The sum is rounded to the residual's dtype before it is squared, as if computed apart."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, PADDED)
    inside = column < WIDTH
    value = tl.load(x + row * WIDTH + column, mask=inside, other=0.0).to(tl.float32)
    if HAS_RESIDUAL:
        value += tl.load(residual + row * WIDTH + column, mask=inside, other=0.0).to(tl.float32)
        rounded = value.to(residual.dtype.element_ty)
        tl.store(residual + row * WIDTH + column, rounded, mask=inside)
        value = rounded.to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, 0) / WIDTH + eps)
    gain = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * WIDTH + column, (value * scale * gain).to(out.dtype.element_ty), mask=inside)


def rms_norm(
    x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor, residual: torch.Tensor | None = None
) -> None:
    """``out = norm(x)``; with ``residual``, first ``residual += x``, then ``out = norm(residual)``.

    ``x``, ``residual``, ``out``: ``[T, width]`` contiguous; ``weight``: ``[width]``. Squares are summed in float32.
    """
    num_rows, width = x.shape
    padded = triton.next_power_of_2(width)
    rms_norm_kernel[(num_rows,)](
        x,
        x if residual is None else residual,
        weight,
        out,
        eps,
        WIDTH=width,
        PADDED=padded,
        HAS_RESIDUAL=residual is not None,
        num_warps=min(16, max(1, padded // 512)),
    )

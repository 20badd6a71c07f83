"""RMSNorm, plain and fused with the additions before it."""

import torch
import triton
import triton.language as tl

from anaphora.models.kernels.early import launch_options, wait
from anaphora.models.kernels.launch import launch


@triton.jit
def rms_norm_kernel(
    x, residual, weight, out, eps,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, PARTS: tl.constexpr, HAS_RESIDUAL: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """One row a program. The sum is rounded to the residual's dtype before it is squared, as if computed apart."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, PADDED)
    inside = column < WIDTH
    gain = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    wait(EARLY)
    value = tl.load(x + row * WIDTH + column, mask=inside, other=0.0).to(tl.float32)
    for part in tl.static_range(1, PARTS):
        at = x + (part * tl.num_programs(0) + row) * WIDTH + column
        value += tl.load(at, mask=inside, other=0.0).to(tl.float32)
    if PARTS > 1:
        value = value.to(out.dtype.element_ty).to(tl.float32)  # as one product would have been
    if HAS_RESIDUAL:
        value += tl.load(residual + row * WIDTH + column, mask=inside, other=0.0).to(tl.float32)
        rounded = value.to(residual.dtype.element_ty)
        tl.store(residual + row * WIDTH + column, rounded, mask=inside)
        value = rounded.to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, 0) / WIDTH + eps)
    tl.store(out + row * WIDTH + column, (value * scale * gain).to(out.dtype.element_ty), mask=inside)


def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    out: torch.Tensor,
    residual: torch.Tensor | None = None,
    *,
    early: bool = False,
) -> None:
    """``out = norm(x)``; with ``residual``, first ``residual += x``, then ``out = norm(residual)``.

    ``x``, ``residual``, ``out``: ``[T, width]`` contiguous; ``weight``: ``[width]``. Squares are summed in float32.
    ``x`` may be ``[S, T, width]`` float32, parts that are added up first. ``early``: see
    :mod:`anaphora.models.kernels.early`.
    """
    num_rows, width = out.shape
    padded = triton.next_power_of_2(width)
    launch(
        rms_norm_kernel,
        (num_rows,),
        x,
        x if residual is None else residual,
        weight,
        out,
        eps,
        WIDTH=width,
        PADDED=padded,
        PARTS=1 if x.dim() == 2 else len(x),
        HAS_RESIDUAL=residual is not None,
        EARLY=early,
        num_warps=min(16, max(1, padded // 512)),
        **launch_options(early),
    )

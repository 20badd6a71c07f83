"""The gated MLP's middle: SiLU of the gate times the up projection."""

import torch
import triton
import triton.language as tl

from anaphora.models.kernels.early import launch_options, wait
from anaphora.models.kernels.launch import launch

COLUMNS = 1024
"""Elements of one program."""


@triton.jit
def silu_mul_kernel(gate_up, out, width, COLUMNS: tl.constexpr, EARLY: tl.constexpr):
    """A run of columns of one row."""
    wait(EARLY)
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    gate = tl.load(gate_up + row * 2 * width + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * width + width + column, mask=inside, other=0.0)
    activated = (gate / (1.0 + tl.exp(-gate))).to(up.dtype).to(tl.float32)  # rounded, as if stored between
    tl.store(out + row * width + column, (activated * up.to(tl.float32)).to(out.dtype.element_ty), mask=inside)


def silu_mul(gate_up: torch.Tensor, out: torch.Tensor, *, early: bool = False) -> None:
    """``gate_up`` ``[T, 2 * width]``, gates first, to ``out`` ``[T, width]``; both contiguous. ``early``: see
    :mod:`anaphora.models.kernels.early`."""
    num_rows, width = out.shape
    launch(
        silu_mul_kernel,
        (num_rows, triton.cdiv(width, COLUMNS)),
        gate_up,
        out,
        width,
        COLUMNS=COLUMNS,
        EARLY=early,
        num_warps=4,
        **launch_options(early),
    )

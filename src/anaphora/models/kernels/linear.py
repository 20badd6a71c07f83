"""Products with a model's weights whose rows do not depend on how many others there are, to the bit.

A library chooses another kernel for another number of rows, and so another order of additions. Here tiles are the same
for every step, and each output element is summed over its inputs in one order.
"""

import torch
import triton
import triton.language as tl

from anaphora.models.kernels.launch import launch

ROWS = 64
COLUMNS = 64
DEPTH = 64
"""Inputs summed at once."""


@triton.jit
def linear_kernel(
    x, weight, bias, out, num_rows, num_columns, depth,
    HAS_BIAS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A tile of rows and columns of ``x @ weight.T + bias``. Neighbouring programs share the columns' weights."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    at = tl.arange(0, DEPTH)
    x_at = x + row.to(tl.int64)[:, None] * depth + at[None, :]
    weight_at = weight + column.to(tl.int64)[:, None] * depth + at[None, :]
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(0, depth, DEPTH):
        inside = (start + at < depth)[None, :]
        left = tl.load(x_at + start, mask=(row < num_rows)[:, None] & inside, other=0.0)
        right = tl.load(weight_at + start, mask=(column < num_columns)[:, None] & inside, other=0.0)
        total = tl.dot(left, tl.trans(right), total, input_precision=PRECISION)
    if HAS_BIAS:
        total += tl.load(bias + column, mask=column < num_columns, other=0.0).to(tl.float32)[None, :]
    here = out + row.to(tl.int64)[:, None] * num_columns + column[None, :]
    mask = (row < num_rows)[:, None] & (column < num_columns)[None, :]
    tl.store(here, total.to(out.dtype.element_ty), mask=mask)


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor) -> None:
    """``x`` ``[T, depth]``, ``weight`` ``[columns, depth]``, ``bias`` ``[columns]``, to ``out`` ``[T, columns]``."""
    num_rows, depth = x.shape
    num_columns = weight.shape[0]
    launch(linear_kernel, (triton.cdiv(num_rows, ROWS), triton.cdiv(num_columns, COLUMNS)),
        x, weight, weight if bias is None else bias, out, num_rows, num_columns, depth,
        HAS_BIAS=bias is not None, ROWS=ROWS, COLUMNS=COLUMNS, DEPTH=DEPTH,
        PRECISION="ieee" if x.dtype is torch.float32 else "tf32", num_warps=4, num_stages=4,
    )  # fmt: skip


class FixedLinear:
    """See :class:`anaphora.models.linear.Linear`."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._weight = weight
        self._bias = bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(len(x), len(self._weight), dtype=x.dtype, device=x.device)
        self.into(x, out)
        return out

    def add_to(self, residual: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return residual.add_(self(x))

    def into(self, x: torch.Tensor, out: torch.Tensor) -> None:
        linear(x, self._weight, self._bias, out)

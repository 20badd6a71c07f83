"""Products of few rows with a model's weights. What they cost is reading the weights: that is what they are built for.

The weights are the left factor, whose tiles go from memory straight into the tensor cores; the few rows are the right
one. Deep products are split along the depth so that programs fill the GPU; the parts stay apart in float32, and the
operator that reads them adds them up, always in the same order.

Launched early (:mod:`anaphora.models.kernels.early`), programs ask for their first weights before they wait.
"""

from dataclasses import dataclass
from functools import cache

import torch
import triton
import triton.language as tl

from anaphora.models.kernels.early import launch_options, prefetch, wait
from anaphora.models.kernels.launch import launch
from anaphora.models.linear import PlainLinear


@triton.jit(do_not_specialize=["num_rows"])  # a step may have any number: none of them waits for a compiler
def skinny_kernel(
    x, weight, bias, out, num_rows, num_columns, depth, split_depth,
    GATED: tl.constexpr, HAS_BIAS: tl.constexpr, EVEN: tl.constexpr, EARLY: tl.constexpr, AHEAD: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A tile of columns of one part of ``x @ weight.T``, for all rows. ``num_columns``: of ``out``.

    ``GATED``: the first half of a tile's weights are gates, the other half, ``num_columns`` further, what they gate.
    ``EVEN``: tiles end where the weights do. ``AHEAD``: steps along the depth whose weights are asked for early.
    """
    split = tl.program_id(1)
    at = tl.arange(0, DEPTH)
    row = tl.arange(0, ROWS)
    tile = tl.arange(0, COLUMNS)
    if GATED:
        HALF: tl.constexpr = COLUMNS // 2
        column = tl.program_id(0) * HALF + tile % HALF
        source = column + (tile // HALF) * num_columns
    else:
        column = tl.program_id(0) * COLUMNS + tile
        source = column
    start = split * split_depth
    stop = tl.minimum(start + split_depth, depth)
    weight_at = weight + source.to(tl.int64)[:, None] * depth + at[None, :]
    x_at = x + row[None, :] * depth + at[:, None]
    if EARLY and EVEN:
        line = tl.minimum(start + tl.arange(0, AHEAD * DEPTH // 64) * 64, depth - 1)
        prefetch(weight + source.to(tl.int64)[:, None] * depth + line[None, :])
    wait(EARLY)
    inside_rows = (row < num_rows)[None, :]
    inside_columns = (column < num_columns)[:, None]
    total = tl.zeros((COLUMNS, ROWS), tl.float32)
    for first in range(start, stop, DEPTH):
        if EVEN:
            left = tl.load(weight_at + first)
            right = tl.load(x_at + first, mask=inside_rows, other=0.0)
        else:
            inside = first + at < stop
            left = tl.load(weight_at + first, mask=inside_columns & inside[None, :], other=0.0)
            right = tl.load(x_at + first, mask=inside_rows & inside[:, None], other=0.0)
        total = tl.dot(left, right, total, input_precision=PRECISION)
    if HAS_BIAS:
        here = tl.load(bias + source, mask=column < num_columns, other=0.0).to(tl.float32)
        total += tl.where(split == 0, here, 0.0)[:, None]
    if GATED:
        gate, up = tl.split(tl.permute(tl.reshape(total, [2, HALF, ROWS]), (1, 2, 0)))
        kind = out.dtype.element_ty
        gate = gate.to(kind).to(tl.float32)
        result = (gate / (1.0 + tl.exp(-gate))).to(kind).to(tl.float32) * up.to(kind).to(tl.float32)
        unique = tl.program_id(0) * HALF + tl.arange(0, HALF)
        out_at = out + row[None, :] * num_columns + unique[:, None]
        tl.store(out_at, result.to(kind), mask=inside_rows & (unique < num_columns)[:, None])
    else:
        out_at = out + (split * num_rows + row)[None, :] * num_columns + column[:, None]
        tl.store(out_at, total.to(out.dtype.element_ty), mask=inside_rows & inside_columns)


@dataclass(frozen=True, slots=True)
class SkinnySizes:
    """How a product is cut."""

    columns: int
    depth: int
    """Inputs summed at once."""
    num_stages: int
    """Tiles of weights in flight."""
    num_parts: int


MAX_ROWS = 64
"""With more, reading weights is no longer all that a product costs: the library's are then as fast."""
AHEAD = 1
NUM_WARPS = 4
MAX_PART_DEPTH = 6144
"""Inputs of a part from which on two parts are faster."""


def sizes_for(
    num_rows: int, num_columns: int, depth: int, *, num_sms: int, hopper: bool, gated: bool
) -> SkinnySizes | None:
    """The sizes for ``num_rows`` rows on a GPU of ``num_sms`` multiprocessors; ``None``: the library is faster.

    Measured on an H200 (``benchmarks/gpu/products.py``). Every tile of columns reads all rows, which comes to as much
    as the weights where a tile has no more columns than there are rows: the largest products of many rows have wider
    tiles, where shared memory has room for them. One too small to fill the GPU is then better off with the library.
    """
    are_many = hopper and num_rows > 56
    columns = 128 if are_many and (gated or depth > MAX_PART_DEPTH) else 64
    if gated:  # its parts could not be added up before the gate
        if num_rows <= 32:
            return SkinnySizes(columns, 128, 3, 1)
        return SkinnySizes(columns, 64, 6 if are_many else 4, 1)
    num_tiles, num_parts = triton.cdiv(num_columns, columns), 1
    while num_parts * 256 < depth and (num_tiles * num_parts < num_sms * 4 // 5 or depth > MAX_PART_DEPTH * num_parts):
        num_parts *= 2
    if are_many and num_tiles * num_parts < num_sms and depth <= MAX_PART_DEPTH:
        return None
    return SkinnySizes(columns, 64, 5, num_parts) if num_rows > 32 else SkinnySizes(columns, 128, 4, num_parts)


class SkinnyLinear(PlainLinear):
    """A library's product, and for few rows its own, whose parts or gated form the next operator can take."""

    def add_to(self, residual: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """By the product itself, which reads ``residual`` where it writes the sum."""
        if self._bias is not None:
            return super().add_to(residual, x)
        return torch.addmm(residual, x, self._weight.t(), out=residual)

    def parts(self, x: torch.Tensor, *, early: bool) -> torch.Tensor:
        """``[T, in_features]`` to ``[T, out_features]``, or to ``[S, T, out_features]`` float32, to be added up."""
        sizes = self._sizes(x, gated=False)
        if sizes is None:
            return self(x)
        shape = (len(x), len(self._weight))
        if sizes.num_parts == 1:
            out = torch.empty(shape, dtype=x.dtype, device=x.device)
        else:
            out = torch.empty((sizes.num_parts, *shape), dtype=torch.float32, device=x.device)
        self._launch(x, out, sizes, gated=False, early=early)
        return out

    def gated(self, x: torch.Tensor, out: torch.Tensor, *, early: bool) -> None:
        """SiLU of the first half of the columns times the second half, to ``out`` ``[T, out_features / 2]``, for
        up to ``MAX_ROWS`` rows."""
        sizes = self._sizes(x, gated=True)
        assert sizes is not None, "up to MAX_ROWS rows"
        self._launch(x, out, sizes, gated=True, early=early)

    def _sizes(self, x: torch.Tensor, *, gated: bool) -> SkinnySizes | None:
        if len(x) > MAX_ROWS:
            return None
        num_sms, hopper = _num_sms(x.device), _is_hopper(x.device)
        return sizes_for(len(x), *self._weight.shape, num_sms=num_sms, hopper=hopper, gated=gated)

    def _launch(self, x: torch.Tensor, out: torch.Tensor, sizes: SkinnySizes, *, gated: bool, early: bool) -> None:
        num_rows, depth = x.shape
        num_columns, tile = out.shape[-1], sizes.columns // 2 if gated else sizes.columns
        part_depth = triton.cdiv(triton.cdiv(depth, sizes.num_parts), sizes.depth) * sizes.depth
        launch(skinny_kernel, (triton.cdiv(num_columns, tile), sizes.num_parts),
            x, self._weight, self._weight if self._bias is None else self._bias, out,
            num_rows, num_columns, depth, part_depth,
            GATED=gated, HAS_BIAS=self._bias is not None, EVEN=depth % sizes.depth == 0 and num_columns % tile == 0,
            EARLY=early, AHEAD=AHEAD, ROWS=max(8, triton.next_power_of_2(num_rows)), COLUMNS=sizes.columns,
            DEPTH=sizes.depth, PRECISION="ieee" if x.dtype is torch.float32 else "tf32",
            num_warps=NUM_WARPS, num_stages=sizes.num_stages, **launch_options(early),
        )  # fmt: skip


@cache
def _num_sms(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2


@cache
def _is_hopper(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)

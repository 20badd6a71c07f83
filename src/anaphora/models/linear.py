"""Matrix products with a model's weights: plain, or with weights laid out once as the processor's kernel reads them."""

from typing import Protocol

import torch
from torch.nn import functional

PACKING_ROWS = 512
"""Batch size that the packed layout is chosen for. Measured best, or within noise of it, from 1 to 2048 rows."""

LEAST_ROWS = 4
"""Fewer are padded to so many: oneDNN's kernels for one and two rows take longer than that for four, which reads the
weights with more loads on their way at once."""


class Linear(Protocol):
    """``x @ weight.T + bias``."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        """``weight`` ``[out_features, in_features]``, ``bias`` ``[out_features]``."""
        ...

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """``[T, in_features]`` to ``[T, out_features]``."""
        ...

    def add_to(self, residual: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """``residual + self(x)``; ``residual`` may be overwritten."""
        ...

    def into(self, x: torch.Tensor, out: torch.Tensor) -> None:
        """The product to ``out`` ``[T, out_features]``."""
        ...


class PlainLinear:
    """By torch's public function."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._weight = weight
        self._bias = bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self._weight, self._bias)

    def add_to(self, residual: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return residual.add_(functional.linear(x, self._weight, self._bias))

    def into(self, x: torch.Tensor, out: torch.Tensor) -> None:
        torch.mm(x, self._weight.t(), out=out)
        if self._bias is not None:
            out.add_(self._bias)


class PackedLinear:
    """By oneDNN, with the weights in its blocked layout. Keeps no plain copy.

    The operators are not public: ask :func:`fastest_linear`, which tries them.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, PACKING_ROWS)
        self._bias = bias
        self._product = torch.ops.mkldnn._linear_pointwise.default
        self._product_and = torch.ops.mkldnn._linear_pointwise.binary

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        num_rows = len(x)
        if num_rows < LEAST_ROWS:
            x = functional.pad(x, (0, 0, 0, LEAST_ROWS - num_rows))
        result: torch.Tensor = self._product(x, self._weight, self._bias, "none", [], "")
        return result[:num_rows]

    def add_to(self, residual: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        if len(x) < LEAST_ROWS:
            return residual.add_(self(x))
        result: torch.Tensor = self._product_and(x, residual, self._weight, self._bias, "add")
        return result

    def into(self, x: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(self(x))


def fastest_linear(dtype: torch.dtype) -> type[PlainLinear] | type[PackedLinear]:
    """Packed where this torch and this processor can, and it agrees with the plain product; else plain."""
    generator = torch.Generator().manual_seed(0)
    weight, bias, x, residual = (torch.randn(*shape, generator=generator).to(dtype) for shape in _TRIAL_SHAPES)
    plain = PlainLinear(weight, bias)
    try:
        packed = PackedLinear(weight, bias)
        results = packed(x), packed.add_to(residual.clone(), x)
    except (AttributeError, RuntimeError, TypeError):
        return PlainLinear
    expected = plain(x), plain.add_to(residual.clone(), x)
    tolerance = 1e-5 if dtype is torch.float32 else 5e-2
    agrees = all(
        torch.allclose(result.float(), wanted.float(), rtol=tolerance, atol=tolerance * 10)
        for result, wanted in zip(results, expected, strict=True)
    )
    return PackedLinear if agrees else PlainLinear


_TRIAL_SHAPES = ((96, 64), (96,), (7, 64), (7, 96))
"""Weight, bias, input and residual of the product that is tried."""

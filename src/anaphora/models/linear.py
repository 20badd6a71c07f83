"""A matrix product with a model's weights."""

import torch
from torch.nn import functional


class Linear:
    """``x @ weight.T + bias``; ``weight`` is ``[out_features, in_features]``."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._weight = weight
        self._bias = bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """``[T, in_features]`` to ``[T, out_features]``."""
        return functional.linear(x, self._weight, self._bias)

    def add_to(self, residual: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """``residual + self(x)``; may be computed in place of ``residual``."""
        return residual.add_(functional.linear(x, self._weight, self._bias))

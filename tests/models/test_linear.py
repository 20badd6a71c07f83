"""Packed products equal plain ones, and are not used where they do not."""

from typing import Any

import pytest
import torch

from anaphora.models import linear
from anaphora.models.linear import PackedLinear, PlainLinear, fastest_linear


@pytest.mark.parametrize("kind", [PlainLinear, PackedLinear, fastest_linear(torch.float32)])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 20, 600])
@pytest.mark.parametrize("has_bias", [False, True])
def test_products(kind: type[PlainLinear], rows: int, has_bias: bool) -> None:
    torch.manual_seed(rows)
    weight, bias = torch.randn(130, 70), torch.randn(130) if has_bias else None
    x, residual = torch.randn(rows, 70), torch.randn(rows, 130)
    expected = x.double() @ weight.double().T + (0 if bias is None else bias.double())
    product = kind(weight, bias)
    torch.testing.assert_close(product(x).double(), expected, rtol=0, atol=1e-4)
    out = torch.full((rows, 130), torch.nan)
    product.into(x, out)
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=1e-4)
    total = residual.double() + expected
    torch.testing.assert_close(product.add_to(residual, x).double(), total, rtol=0, atol=1e-4)


def test_packed_weights_are_used_here() -> None:
    assert fastest_linear(torch.float32) is PackedLinear


def test_a_missing_operator_means_plain_products(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> None:
        raise AttributeError("no such operator")

    monkeypatch.setattr(linear.PackedLinear, "__init__", missing)
    assert fastest_linear(torch.float32) is PlainLinear


def test_a_wrong_product_means_plain_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear.PackedLinear, "add_to", lambda self, residual, x: self(x))
    assert fastest_linear(torch.float32) is PlainLinear


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_finds_something_that_works(dtype: torch.dtype) -> None:
    weight, x = torch.randn(48, 64).to(dtype), torch.randn(5, 64).to(dtype)
    result = fastest_linear(dtype)(weight, None)(x)
    assert result.dtype == dtype
    torch.testing.assert_close(result.float(), x.float() @ weight.float().T, rtol=0.05, atol=0.2)

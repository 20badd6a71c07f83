"""Products with fixed tiles, in Triton's interpreter."""

import pytest
import torch

from tests.models.kernels import interpreter  # noqa: F401  # skips where kernels cannot be run

from anaphora.models.kernels.linear import FixedLinear  # isort: skip


@pytest.mark.parametrize("has_bias", [True, False])
def test_products_of_odd_sizes(has_bias: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    x, weight = (torch.randn(n, 70, generator=generator) for n in (3, 65))
    bias = torch.randn(65, generator=generator) if has_bias else None
    product = FixedLinear(weight, bias)
    expected = torch.nn.functional.linear(x.double(), weight.double(), None if bias is None else bias.double())
    torch.testing.assert_close(product(x).double(), expected, rtol=1e-5, atol=1e-4)
    residual = torch.randn(3, 65, generator=generator)
    wanted = residual.double() + expected
    torch.testing.assert_close(product.add_to(residual, x).double(), wanted, rtol=1e-5, atol=1e-4)


def test_a_row_is_the_same_alone_and_among_others() -> None:
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(66, 70, generator=generator), torch.randn(9, 70, generator=generator)
    product = FixedLinear(weight, None)
    together = product(x)
    assert torch.equal(product(x[:1]), together[:1])
    assert torch.equal(product(x[64:]), together[64:])

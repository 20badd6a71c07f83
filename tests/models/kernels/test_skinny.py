"""Products of few rows in Triton's interpreter, against torch in float64; outputs are poisoned by their allocation."""

import pytest
import torch
from torch.nn import functional

from tests.models.kernels import interpreter  # noqa: F401  # skips where kernels cannot be run

from anaphora.models.kernels import skinny  # isort: skip
from anaphora.models.kernels.norm import rms_norm  # isort: skip
from anaphora.models.kernels.rotary import rotate_and_cache, rotations  # isort: skip
from anaphora.models.kernels.skinny import SkinnyLinear, SkinnySizes, sizes_for  # isort: skip

SIZES = SkinnySizes(columns=16, depth=16, num_stages=2, num_parts=3)


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of which several fit into small matrices."""

    def sizes(*shape: int, num_sms: int, hopper: bool, gated: bool) -> SkinnySizes:
        return SkinnySizes(SIZES.columns, SIZES.depth, SIZES.num_stages, 1 if gated else SIZES.num_parts)

    monkeypatch.setattr(skinny, "sizes_for", sizes)


def made(columns: int, depth: int, *, has_bias: bool = False) -> tuple[SkinnyLinear, torch.Tensor, torch.Tensor | None]:
    """A product, its weight and its bias in float64."""
    weight, bias = torch.randn(columns, depth).half(), torch.randn(columns).half() if has_bias else None
    return SkinnyLinear(weight, bias), weight.double(), None if bias is None else bias.double()


@pytest.mark.parametrize("num_rows", [1, 9])
@pytest.mark.parametrize(("columns", "depth"), [(32, 64), (35, 70)])
def test_parts_add_up(columns: int, depth: int, num_rows: int) -> None:
    product, weight, bias = made(columns, depth, has_bias=True)
    x = torch.randn(num_rows, depth).half()
    parts = product.parts(x, early=False)
    assert parts.shape == (3, num_rows, columns)
    assert parts.dtype is torch.float32
    torch.testing.assert_close(parts.double().sum(0), functional.linear(x.double(), weight, bias), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("width", "depth"), [(24, 64), (21, 70)])
def test_gates_and_what_they_gate(width: int, depth: int) -> None:
    product, weight, _ = made(2 * width, depth)
    x, out = torch.randn(3, depth).half(), torch.full((3, width), torch.nan).half()
    product.gated(x, out, early=False)
    gate, up = functional.linear(x.double(), weight).chunk(2, dim=1)
    torch.testing.assert_close(out.double(), functional.silu(gate) * up, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("has_bias", [False, True])
def test_a_product_is_added_where_the_sum_is_wanted(has_bias: bool) -> None:
    product, weight, bias = made(16, 32, has_bias=has_bias)
    x, residual = torch.randn(5, 32).half(), torch.randn(5, 16).half()
    wanted = residual.double() + functional.linear(x.double(), weight, bias)
    assert product.add_to(residual, x) is residual
    torch.testing.assert_close(residual.double(), wanted, rtol=1e-2, atol=1e-2)


def test_many_rows_go_to_the_library() -> None:
    product, weight, _ = made(16, 32)
    x = torch.randn(skinny.MAX_ROWS + 1, 32).half()
    whole = product.parts(x, early=False)
    assert whole.shape == (len(x), 16)
    torch.testing.assert_close(whole.double(), functional.linear(x.double(), weight), rtol=1e-2, atol=1e-2)


def test_a_norm_adds_parts_up() -> None:
    parts, residual, weight = torch.randn(3, 2, 40), torch.randn(2, 40).half(), torch.randn(40).half()
    total, out = residual + parts.sum(0).half(), torch.full((2, 40), torch.nan).half()
    rms_norm(parts, weight, 1e-5, out, residual)
    assert torch.equal(residual, total)
    wanted = functional.rms_norm(total.double(), (40,), weight.double(), 1e-5)
    torch.testing.assert_close(out.double(), wanted, rtol=4e-3, atol=4e-3)


def test_rotary_adds_parts_up() -> None:
    num_heads, num_kv_heads, dim = 2, 1, 64
    parts = torch.randn(2, 3, num_heads + 2 * num_kv_heads, dim)
    slots, rotation = torch.tensor([0, 2, 1], dtype=torch.int32), torch.empty(3, 2, dim // 2)
    rotations(slots, torch.ones(dim // 2), 1.0, rotation)
    results = []
    for heads in (parts, parts.sum(0).half()):
        cache, queries = torch.zeros(2, num_kv_heads, 3, dim).half(), torch.zeros(3, num_heads, dim).half()
        rotate_and_cache(heads, rotation, slots, cache, queries)
        results.append((cache, queries))
    for by_parts, whole in zip(*results, strict=True):
        assert torch.equal(by_parts, whole)


@pytest.mark.parametrize(
    ("shape", "hopper", "columns", "num_parts"),
    [
        ((1, 3584, 3584), True, 64, 2),
        ((1, 3584, 18944), True, 64, 4),
        ((48, 4608, 3584), True, 64, 2),
        ((64, 3584, 18944), True, 128, 4),
        ((64, 3584, 18944), False, 64, 4),
        ((64, 4608, 3584), True, 64, 2),
        ((1, 152064, 3584), True, 64, 1),
    ],
)
def test_deep_and_narrow_products_are_split(
    shape: tuple[int, int, int], hopper: bool, columns: int, num_parts: int
) -> None:
    sizes = sizes_for(*shape, num_sms=132, hopper=hopper, gated=False)
    assert sizes is not None
    assert (sizes.columns, sizes.num_parts) == (columns, num_parts)
    gated = sizes_for(*shape, num_sms=132, hopper=hopper, gated=True)
    assert gated is not None
    assert (gated.columns, gated.num_parts) == (128 if hopper and shape[0] == 64 else 64, 1)


def test_a_product_too_small_for_wide_tiles_goes_to_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sizes_for(64, 3584, 3584, num_sms=132, hopper=True, gated=False) is None
    monkeypatch.setattr(skinny, "sizes_for", lambda *shape, **gpu: None)
    product, weight, _ = made(16, 32)
    x = torch.randn(64, 32).half()
    torch.testing.assert_close(product.parts(x, early=False), functional.linear(x, weight.half()))

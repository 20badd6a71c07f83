"""Parts of attention: the fast kernel equals the definition, and parts put together equal the whole."""

from itertools import pairwise
from typing import Any

import pytest
import torch

from anaphora.models.attention import partial
from anaphora.models.attention.partial import (
    Part,
    PartialAttention,
    fastest_partial,
    flash_partial,
    merge,
    plain_partial,
)


def random_heads(num_queries: int, num_keys: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(num_queries)
    queries = torch.randn(2, 3, num_queries, 16)
    return queries, torch.randn(2, 3, num_keys, 16), torch.randn(2, 3, num_keys, 16)


@pytest.mark.parametrize("attend", [plain_partial, flash_partial])
@pytest.mark.parametrize("causal", [False, True])
def test_equals_torch(attend: PartialAttention, causal: bool) -> None:
    queries, keys, values = random_heads(20, 20)
    mixed, lse = attend(queries, keys, values, causal=causal)
    expected = torch.nn.functional.scaled_dot_product_attention(queries, keys, values, is_causal=causal)
    torch.testing.assert_close(mixed, expected, rtol=0, atol=1e-5)
    scores = queries @ keys.transpose(-1, -2) / 4
    if causal:
        scores += torch.full((20, 20), -torch.inf).triu(1)
    torch.testing.assert_close(lse, scores.logsumexp(-1), rtol=0, atol=1e-5)


@pytest.mark.parametrize("cuts", [[0, 50], [0, 1, 50], [0, 20, 21, 50], [0, 10, 20, 30, 40, 50]])
def test_parts_make_the_whole(cuts: list[int]) -> None:
    queries, keys, values = random_heads(7, 50)
    whole = plain_partial(queries, keys, values, causal=False).mixed
    parts = [
        flash_partial(queries, keys[:, :, start:end], values[:, :, start:end], causal=False)
        for start, end in pairwise(cuts)
    ]
    torch.testing.assert_close(merge(parts).mixed, whole, rtol=0, atol=1e-5)


def test_scores_far_apart_do_not_overflow() -> None:
    ones = torch.ones(1, 1, 1, 2)
    parts = [Part(ones * 3, torch.tensor([[[-2000.0]]])), Part(ones * 5, torch.tensor([[[3000.0]]]))]
    assert merge(parts).mixed.tolist() == [[[[5.0, 5.0]]]]


def test_the_kernel_is_used_here() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert fastest_partial(dtype) is flash_partial


def test_a_kernel_that_is_missing_or_wrong_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any, **__: Any) -> Part:
        raise AttributeError("no such operator")

    monkeypatch.setattr(partial, "flash_partial", missing)
    assert fastest_partial(torch.float32) is plain_partial

    def not_causal(queries: Any, keys: Any, values: Any, *, causal: bool, mask: Any = None) -> Part:
        return plain_partial(queries, keys, values, causal=False, mask=mask)

    monkeypatch.setattr(partial, "flash_partial", not_causal)
    assert fastest_partial(torch.float32) is plain_partial

    def without_mask(queries: Any, keys: Any, values: Any, *, causal: bool, mask: Any = None) -> Part:
        return plain_partial(queries, keys, values, causal=causal)

    monkeypatch.setattr(partial, "flash_partial", without_mask)
    assert fastest_partial(torch.float32) is plain_partial

"""Fused operations of a layer in Triton's interpreter, against torch in float64; outputs are poisoned first."""

import math

import pytest
import torch
from torch.nn import functional

from anaphora.models.device.operators import PlainOperators
from anaphora.models.rotary import rotate
from tests.models.kernels import interpreter  # noqa: F401  # skips where kernels cannot be run

from anaphora.models.kernels.mlp import silu_mul  # isort: skip
from anaphora.models.kernels.norm import rms_norm  # isort: skip
from anaphora.models.kernels.rotary import rotate_and_cache, rotations  # isort: skip
from anaphora.models.kernels.tokens import Argmax, gather_rows, gather_tokens, move_slots  # isort: skip

EPS = 1e-5
FLOATS = pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.float16, 4e-3)])


def poisoned(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.full(shape, math.nan, dtype=dtype)


def close(result: torch.Tensor, wanted: torch.Tensor, tolerance: float) -> bool:
    return torch.allclose(result.double(), wanted, rtol=tolerance, atol=tolerance)


@FLOATS
def test_rms_norm(dtype: torch.dtype, tolerance: float) -> None:
    x, weight, out = torch.randn(3, 100).to(dtype), torch.randn(100).to(dtype), poisoned(3, 100, dtype=dtype)
    rms_norm(x, weight, EPS, out)
    assert close(out, functional.rms_norm(x.double(), (100,), weight.double(), EPS), tolerance)


@FLOATS
def test_rms_norm_of_a_sum_keeps_the_sum(dtype: torch.dtype, tolerance: float) -> None:
    x, residual, weight = (torch.randn(*shape).to(dtype) for shape in ((3, 100), (3, 100), (100,)))
    total, out = x + residual, poisoned(3, 100, dtype=dtype)
    rms_norm(x, weight, EPS, out, residual)
    assert torch.equal(residual, total)
    assert close(out, functional.rms_norm(total.double(), (100,), weight.double(), EPS), tolerance)


@FLOATS
def test_silu_mul(dtype: torch.dtype, tolerance: float) -> None:
    gate_up, out = torch.randn(2, 2 * 1100).to(dtype), poisoned(2, 1100, dtype=dtype)
    silu_mul(gate_up, out)
    gate, up = gate_up.double().chunk(2, dim=1)
    assert close(out, functional.silu(gate) * up, tolerance)


@FLOATS
@pytest.mark.parametrize(("head_dim", "with_norms"), [(64, False), (96, True), (128, True)])
def test_heads_are_turned_and_cached(dtype: torch.dtype, tolerance: float, head_dim: int, with_norms: bool) -> None:
    num_heads, num_kv_heads, num_slots = 6, 2, 10
    positions, slots = torch.tensor([0, 7, 30000], dtype=torch.int32), torch.tensor([9, -1, 4], dtype=torch.int32)
    frequencies = 1 / torch.pow(1e6, torch.arange(0, head_dim, 2) / head_dim)
    rotation = poisoned(3, 2, head_dim // 2, dtype=torch.float32)
    rotations(positions, frequencies, 1.25, rotation)
    heads = torch.randn(3, num_heads + 2 * num_kv_heads, head_dim).to(dtype)
    cache = poisoned(2, num_kv_heads, num_slots, head_dim, dtype=dtype)
    queries = poisoned(3, num_heads, head_dim, dtype=dtype)
    gains = torch.randn(2, head_dim).to(dtype)
    rotate_and_cache(heads, rotation, slots, cache, queries, (gains[0], gains[1], EPS) if with_norms else None)

    wanted = heads.float()
    if with_norms:
        wanted[:, :num_heads] = functional.rms_norm(wanted[:, :num_heads], (head_dim,), gains[0].float(), EPS)
        keys = wanted[:, num_heads : num_heads + num_kv_heads]
        keys.copy_(functional.rms_norm(keys, (head_dim,), gains[1].float(), EPS))
    angles = torch.outer(positions.float(), frequencies).unsqueeze(1)
    rotate(wanted[:, : num_heads + num_kv_heads], torch.polar(torch.full_like(angles, 1.25), angles))
    loose = 4 * tolerance
    assert close(queries, wanted[:, :num_heads].double(), loose)
    new = wanted[:, num_heads:].view(3, 2, num_kv_heads, head_dim).permute(1, 2, 0, 3).double()
    assert close(cache[:, :, [9, 4]], new[:, :, [0, 2]], loose)
    untouched = [slot for slot in range(num_slots) if slot not in (9, 4)]
    assert cache[:, :, untouched].isnan().all()


def test_rows_are_gathered_by_ids_known_and_not_yet_known() -> None:
    table, out = torch.randn(50, 1030), poisoned(4, 1030, dtype=torch.float16)
    ids, sampled = torch.tensor([3, -2, 49, -1], dtype=torch.int32), torch.tensor([7, 8], dtype=torch.int32)
    gather_rows(table, ids, out, sampled)
    assert torch.equal(out, table[[3, 8, 49, 7]].half())


def test_argmax_takes_the_lowest_of_equal_ids() -> None:
    logits = torch.randn(3, 9000)
    logits[1, [77, 8999]] = 100.0
    logits[2, 5000:] = -math.inf
    ids = torch.full((3,), -1, dtype=torch.int32)
    Argmax(4, 9000, torch.device("cpu"))(logits, ids)
    assert ids.tolist() == [int(logits[0].argmax()), 77, int(logits[2].argmax())]


@FLOATS
@pytest.mark.parametrize("head_dim", [64, 96])
def test_tokens_move_from_slot_to_slot(dtype: torch.dtype, tolerance: float, head_dim: int) -> None:
    storage = torch.randn(3, 2, 2, 10, head_dim).to(dtype)
    wanted = storage.clone()
    wanted[..., [0, 5], :] = storage[..., [9, 2], :]
    for move in (move_slots, PlainOperators().move_slots):
        moved = storage.clone()
        move(moved, torch.tensor([[9, 0], [2, 5]], dtype=torch.int32))
        assert torch.equal(moved, wanted)


@pytest.mark.parametrize(("start", "length", "last"), [(0, 5, 4), (6, 40, 45), (3, 50, 20), (20, 33, 20)])
def test_tokens_are_gathered_from_blocks_and_the_last_one_again(start: int, length: int, last: int) -> None:
    block_size, dim = 4, 24
    cache, table = torch.randn(2, 3, 60, dim), torch.randperm(15).int()
    out = poisoned(2, 3, length, dim, dtype=torch.float32)
    gather_tokens(cache, table, block_size, start, last, out)
    token = torch.arange(start, start + length).clamp(max=last)
    assert torch.equal(out, cache[:, :, table[token // block_size].long() * block_size + token % block_size])

"""The fused operations around attention: checked against torch, and timed."""

from collections.abc import Callable
from typing import Any

import torch
from benchmarks.gpu.steps import graph_us
from torch.nn import functional

from anaphora.models.kernels.mlp import silu_mul
from anaphora.models.kernels.norm import rms_norm
from anaphora.models.kernels.rotary import rotate_and_cache, rotations
from anaphora.models.kernels.tokens import Argmax, gather_rows

HIDDEN, INNER, VOCABULARY, COPIES = 3584, 18944, 152064, 20
TOKENS = (1, 16, 64, 256)


def layer_kernels(bandwidth: float) -> list[dict[str, Any]]:
    """Qwen2.5-7B's sizes. ``COPIES`` inputs in one graph, each of its own; microseconds of one."""
    found = []
    for num_tokens in TOKENS:
        for name, (work, num_bytes) in _kernels(num_tokens).items():
            us = graph_us(work) / COPIES
            found.append({"kernel": name, "tokens": num_tokens, "us": us, "floor_us": 1e6 * num_bytes / bandwidth})
            print(name, num_tokens, f"{us:.2f} us", flush=True)
    return found


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.bfloat16, device="cuda")


def _kernels(num_tokens: int) -> dict[str, tuple[Callable[[], object], int]]:
    """By name: the work of ``COPIES`` inputs, and the bytes that one must move."""
    inputs = [_random(num_tokens, HIDDEN) for _ in range(COPIES)]
    residual, weight, normed = _random(num_tokens, HIDDEN), _random(HIDDEN), _random(num_tokens, HIDDEN)
    gate_up, activated = [_random(num_tokens, 2 * INNER) for _ in range(COPIES)], _random(num_tokens, INNER)
    heads, queries = [_random(num_tokens, 36, 128) for _ in range(COPIES)], _random(num_tokens, 28, 128)
    cache, slots = _random(2, 4, 4096, 128), torch.arange(num_tokens, dtype=torch.int32, device="cuda")
    frequencies = 1 / torch.pow(1e6, torch.arange(0, 128, 2, device="cuda") / 128)
    rotation = torch.empty(num_tokens, 2, 64, device="cuda")
    logits, ids = _random(num_tokens, VOCABULARY), torch.empty(num_tokens, dtype=torch.int32, device="cuda")
    table, argmax = _random(VOCABULARY, HIDDEN), Argmax(256, VOCABULARY, torch.device("cuda"))
    _check(inputs[0], residual.clone(), weight, gate_up[0], logits, argmax)
    rotations(slots, frequencies, 1.0, rotation)

    def each(work: Callable[[int], object]) -> Callable[[], object]:
        return lambda: [work(index) for index in range(COPIES)]

    row = 2 * num_tokens * HIDDEN
    return {
        "RMSNorm and residual": (each(lambda i: rms_norm(inputs[i], weight, 1e-6, normed, residual)), 4 * row),
        "SiLU times up": (each(lambda i: silu_mul(gate_up[i], activated)), 2 * num_tokens * 3 * INNER),
        "rotary and KV write": (
            each(lambda i: rotate_and_cache(heads[i], rotation, slots, cache, queries)),
            4 * num_tokens * 36 * 128,
        ),
        "rotations": (each(lambda i: rotations(slots, frequencies, 1.0, rotation)), num_tokens * 512),
        "argmax": (each(lambda i: argmax(logits, ids)), 2 * num_tokens * VOCABULARY),
        "embedding": (each(lambda i: gather_rows(table, slots, normed)), 2 * row),
    }


def _check(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    gate_up: torch.Tensor,
    logits: torch.Tensor,
    argmax: Argmax,
) -> None:
    """Fail if a result is not torch's but for rounding."""
    total, out = x + residual, torch.full_like(x, float("nan"))
    rms_norm(x, weight, 1e-6, out, residual)
    assert torch.equal(residual, total)
    torch.testing.assert_close(out, functional.rms_norm(total, (HIDDEN,), weight, 1e-6), rtol=2e-2, atol=2e-2)
    gate, up = gate_up.chunk(2, dim=1)
    activated = torch.full_like(gate, float("nan")).contiguous()
    silu_mul(gate_up, activated)
    torch.testing.assert_close(activated, functional.silu(gate) * up, rtol=2e-2, atol=2e-2)
    ids = torch.full((len(logits),), -1, dtype=torch.int64, device="cuda")
    argmax(logits, ids)
    assert torch.equal(logits.gather(1, ids.unsqueeze(1)).squeeze(1), logits.amax(1))

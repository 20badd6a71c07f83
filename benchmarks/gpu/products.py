"""Products of few rows with a layer's weights: ours beside the library's, each with the operator behind it.

    python -m benchmarks.gpu.products OUT.json

Qwen2.5-7B's sizes in bfloat16. Every layer has weights of its own, so none are found in a cache; the graph of all
layers is timed. ``us``: microseconds a layer of product and operator; ``early``: with programmatic dependent launch.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from benchmarks.gpu.steps import graph_us
from torch.nn import functional

from anaphora.models.kernels.mlp import silu_mul
from anaphora.models.kernels.norm import rms_norm
from anaphora.models.kernels.rotary import rotate_and_cache, rotations
from anaphora.models.kernels.skinny import SkinnyLinear

HIDDEN, INNER, NUM_HEADS, NUM_KV_HEADS, DIM, VOCABULARY = 3584, 18944, 28, 4, 128, 152064
QKV = (NUM_HEADS + 2 * NUM_KV_HEADS) * DIM
SHAPES = {
    "qkv": (QKV, HIDDEN),
    "output": (HIDDEN, HIDDEN),
    "gate_up": (2 * INNER, HIDDEN),
    "down": (HIDDEN, INNER),
    "head": (VOCABULARY, HIDDEN),
}
"""Columns and depth."""
NUM_LAYERS = {name: 4 if name == "head" else 28 for name in SHAPES}
ROWS = (1, 8, 24, 32, 64)


@dataclass(frozen=True, slots=True)
class After:
    """The operator behind a product, which takes it whole or in parts."""

    name: str
    num_rows: int
    early: bool

    def prepared(self) -> Callable[[torch.Tensor], object]:
        """A function that runs it."""
        rows = self.num_rows
        residual, weight, out = _random(rows, HIDDEN), _random(HIDDEN), _random(rows, HIDDEN)
        if self.name in ("output", "down"):
            return lambda x: rms_norm(x, weight, 1e-6, out, residual, early=self.early)
        if self.name == "gate_up":
            activated = _random(rows, INNER)
            return lambda x: silu_mul(x, activated, early=self.early)
        if self.name == "head":
            return lambda x: x
        slots, rotation = torch.arange(rows, dtype=torch.int32, device="cuda"), torch.empty(rows, 2, 64, device="cuda")
        rotations(slots, 1 / torch.pow(1e6, torch.arange(0, DIM, 2, device="cuda") / DIM), 1.0, rotation)
        cache, queries = _random(2, NUM_KV_HEADS, 4096, DIM), _random(rows, NUM_HEADS, DIM)
        return lambda x: rotate_and_cache(
            x.view(*x.shape[:-1], -1, DIM), rotation, slots, cache, queries, early=self.early
        )


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.bfloat16, device="cuda")


def measure(name: str) -> list[dict[str, Any]]:
    """One product with every number of rows."""
    columns, depth = SHAPES[name]
    bias = _random(columns) if name == "qkv" else None
    products = [SkinnyLinear(_random(columns, depth).mul_(0.02), bias) for _ in range(NUM_LAYERS[name])]
    rows = []
    for num_rows in ROWS:
        x = _random(num_rows, depth)
        by_library = _chain(After(name, num_rows, early=False), [partial(product, x) for product in products])
        rows.append({"product": name, "rows": num_rows, "by": "library", "us": by_library})
        for early in (False, True):
            us, error = _ours(name, products, x, early=early)
            rows.append({"product": name, "rows": num_rows, "by": "ours", "early": early, "us": us, "error": error})
        print(*rows[-3:], sep="\n", flush=True)
    return rows


def _ours(name: str, products: list[SkinnyLinear], x: torch.Tensor, *, early: bool) -> tuple[float, float]:
    """Microseconds, and the relative error of the result against float64."""
    wanted = functional.linear(x.double(), products[0]._weight.double())
    wanted = wanted if products[0]._bias is None else wanted + products[0]._bias.double()
    if name == "gate_up":
        gate, up = wanted.chunk(2, dim=1)
        wanted, out = functional.silu(gate) * up, torch.empty(len(x), INNER, dtype=x.dtype, device=x.device)
        products[0].gated(x, out, early=early)
        us = _layers_us([partial(product.gated, x, out, early=early) for product in products])
        products[0].gated(x, out, early=early)
        got = out
    else:
        us = _chain(After(name, len(x), early), [partial(product.parts, x, early=early) for product in products])
        got = products[0].parts(x, early=early)
    got = got.double().sum(0) if got.dim() == 3 else got.double()
    return us, float((got - wanted).norm() / wanted.norm())


def _chain(after: After, products: list[Callable[[], torch.Tensor]]) -> float:
    then = after.prepared()

    def layer(product: Callable[[], torch.Tensor]) -> None:
        then(product())

    return _layers_us([partial(layer, product) for product in products])


def _layers_us(layers: list[Callable[[], object]]) -> float:
    return graph_us(lambda: [layer() for layer in layers]) / len(layers)


def main() -> None:
    """Measure and write."""
    rows = [row for name in SHAPES for row in measure(name)]
    facts = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "layers": NUM_LAYERS, "rows": rows}
    Path(sys.argv[1]).write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()

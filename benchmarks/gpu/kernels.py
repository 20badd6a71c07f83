"""Checks the CUDA kernels against float64 and times them, with the floors beside. One GPU, about a minute.

    python -m benchmarks.gpu.kernels OUT.json

Attention is timed as a CUDA graph over 28 layers with keys and values of their own, so that nothing stays in the L2
cache from one replay to the next; a figure is a layer's share of the median replay.
"""

import json
import statistics
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import triton
from benchmarks.gpu.cases import CASES, MIXED, Case, Heads, reference
from benchmarks.gpu.layer import layer_kernels
from benchmarks.gpu.steps import (
    NUM_LAYERS,
    Problem,
    attention_of,
    graph_us,
    layer_us,
    plan_with,
    prepared,
    relative_error,
)

from anaphora.models.attention.cuda import CudaAttention, CudaPlan
from anaphora.models.attention.tasks import TaskPlan
from anaphora.models.attention.tiles import AMPERE, HOPPER
from anaphora.models.batch import ForwardBatch

LIMITS = {torch.bfloat16: 4e-3, torch.float16: 5e-4, torch.float32: 2e-6}
"""Relative error allowed, by dtype: of products whose weights are rounded to it."""
PREFILLS = ((2048, 0), (4096, 0), (8192, 0), (8192, 8192), (8192, 21808), (3000, 8300))
"""New tokens, and tokens before them."""


def check(seed: int) -> list[dict[str, Any]]:
    """Mixed steps in every dtype and head size, plain and batch-invariant."""
    found = []
    for dtype in LIMITS:
        for dim in (64, 96, 128):
            heads = Heads(num_heads=14, num_kv_heads=2, dim=dim, dtype=dtype)
            problem = Problem.make(MIXED, heads, 1, seed)
            for invariant in (False, True):
                attention = attention_of(heads, batch_invariant=invariant)
                error = relative_error(attention, attention.plan_spans(problem.spans), problem)
                assert error < LIMITS[dtype], (dtype, dim, invariant, error)
                row = {"dtype": str(dtype), "dim": dim, "batch_invariant": invariant, "relative_error": error}
                found.append(row)
    problem = Problem.make(MIXED, Heads(), 1, seed)
    for architecture, configs in (("hopper", HOPPER), ("ampere", AMPERE)):
        for name, config in configs.items():
            error = relative_error(attention_of(Heads()), plan_with(problem, config, share=name == "extend"), problem)
            assert error < LIMITS[torch.bfloat16], (architecture, name, error)
            found.append({"architecture": architecture, "sizes": name, "relative_error": error})
    return found


def attention_rows(heads: Heads, bandwidth: float, flops: float, seed: int) -> list[dict[str, Any]]:
    """Every case: as the planner does it, without sharing where there is some, and batch-invariant."""
    found = []
    for case in CASES:
        problem = Problem.make(case, heads, NUM_LAYERS, seed)
        attention, invariant = attention_of(heads), attention_of(heads, batch_invariant=True)
        plan, plan_us = _planned(attention, problem)
        error = relative_error(attention, plan, problem)
        assert error < LIMITS[heads.dtype], (case.name, error)
        row = {"case": case.name, "floor_us": case.floor_us(heads, bandwidth, flops), "relative_error": error}
        row |= {"us": layer_us(attention, plan, problem), "plan_us": plan_us}
        row |= {"batch_invariant_us": layer_us(invariant, invariant.plan_spans(problem.spans), problem)}
        row |= {"num_tasks": plan.num_tasks, "num_parts": plan.num_parts, "config": asdict(plan.config)}
        if case.shared:
            row["unshared_us"] = layer_us(attention, plan_with(problem, HOPPER["decode"], share=False), problem)
        found.append(row)
        print(case.name, *(f"{key} {row[key]:.1f}" for key in row if key.endswith("us")), flush=True)
    return found


def _planned(attention: CudaAttention, problem: Problem) -> tuple[TaskPlan, float]:
    """The plan, and how many microseconds of the host it takes; median of 21."""
    times = []
    for _ in range(21):
        start = time.perf_counter()
        plan = attention.plan_spans(problem.spans)
        times.append(time.perf_counter() - start)
    return plan, 1e6 * statistics.median(times)


def invariance(heads: Heads, seed: int) -> bool:
    """Whether a request gets the same bits in a batch, alone, and token by token."""
    problem = Problem.make(Case("invariance", ((40, 3000), (1, 5000), (7, 90))), heads, 1, seed)
    attention = attention_of(heads, batch_invariant=True)

    def attend(spans: list[Any], queries: torch.Tensor) -> torch.Tensor:
        plan, out = attention.plan_spans(spans), torch.empty_like(queries)
        attention.attend(*prepared(attention, plan), plan.config, queries, problem.cache[0], out)
        return out

    whole = attend(problem.spans, problem.queries)
    for span in problem.spans:
        rows = slice(span.query_start, span.query_start + span.query_len)
        alone = type(span)(0, span.query_len, span.kv_len, span.block_table)
        if not torch.equal(attend([alone], problem.queries[rows]), whole[rows]):
            return False
        for row in range(span.query_len):
            single = type(span)(0, 1, span.kv_len - span.query_len + row + 1, span.block_table)
            at = span.query_start + row
            if not torch.equal(attend([single], problem.queries[at : at + 1]), whole[at : at + 1]):
                return False
    return True


def prefill_rows(heads: Heads, flops: float, seed: int) -> list[dict[str, Any]]:
    """Long prefills: our kernel, and the library's through the seam; without a graph, as they run."""
    found = []
    for new, old in PREFILLS:
        case = Case(f"{new} new over {old}", ((new, new + old),))
        problem = Problem.make(case, heads, 2, seed)
        attention = attention_of(heads)
        nothing = torch.empty(0, device="cuda")
        batch = ForwardBatch(nothing, nothing, torch.empty(new, device="cuda"), tuple(problem.spans), nothing)
        out = torch.full_like(problem.queries, float("nan"))
        start = time.perf_counter()
        plan = attention.plan(batch, None)  # type: ignore[arg-type]  # the cache's tensors are ours here
        attention.attend_planned(plan, problem.queries, problem.cache[0], out)
        torch.cuda.synchronize()
        first_ms = 1e3 * (time.perf_counter() - start)
        last = type(problem.spans[0])(new - 64, 64, new + old, problem.spans[0].block_table)
        wanted = reference(problem.queries[-64:], last, problem.cache[0], heads)
        error = float((out[-64:].double() - wanted).norm() / wanted.norm())
        assert error < LIMITS[heads.dtype], (case.name, error)
        assert not out.isnan().any()
        row = {"case": case.name, "floor_us": case.floor_us(heads, 4e12, flops), "relative_error": error}
        row |= {
            "library": plan.tasks.beside is not None,
            "library_us": _seam_us(attention, plan, problem),
            "library_first_ms": first_ms,
        }
        row["us"] = layer_us(attention, plan_with(problem, HOPPER["prefill"], share=False), problem, 5)
        found.append(row)
        print(case.name, *(f"{key} {row[key]:.1f}" for key in row if key.endswith(("us", "ms"))), flush=True)
    return found


def _seam_us(attention: CudaAttention, plan: CudaPlan, problem: Problem) -> float:
    """Microseconds a layer."""
    out = torch.empty_like(problem.queries)

    def layers() -> None:
        for layer in problem.cache:
            attention.attend_planned(plan, problem.queries, layer, out)

    return graph_us(layers, 5) / len(problem.cache)


def ceilings() -> tuple[float, float]:
    """Bytes a second of a negation, read and written; operations a second of a bfloat16 product of 8192 cubed."""
    source = torch.randn(1 << 30, dtype=torch.bfloat16, device="cuda")
    target = torch.empty_like(source)
    copied = 2 * source.nbytes / (1e-6 * graph_us(lambda: torch.neg(source, out=target)))
    a, b = (torch.randn(8192, 8192, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    c = torch.empty_like(a)
    return copied, 2 * 8192**3 / (1e-6 * graph_us(lambda: torch.mm(a, b, out=c)))


def main() -> None:
    seed = time.time_ns() % 2**31
    heads = Heads()
    bandwidth, flops = ceilings()
    device = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__}
    result: dict[str, Any] = device | {
        "bytes_per_s": bandwidth,
        "flops_per_s": flops,
        "seed": seed,
        "heads": str(heads),
    }
    print(result, flush=True)
    result |= {"checks": check(seed), "batch_invariant_to_the_bit": invariance(heads, seed)}
    print("checked; batch-invariant to the bit:", result["batch_invariant_to_the_bit"], flush=True)
    result["attention"] = attention_rows(heads, bandwidth, flops, seed)
    result["layer"] = layer_kernels(bandwidth)
    result["long_prefill"] = prefill_rows(heads, flops, seed)
    Path(sys.argv[1]).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

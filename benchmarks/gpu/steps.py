"""Our attention on one case: planned, checked, and timed as a graph over many layers."""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from benchmarks.gpu.cases import BLOCK_SIZE, Case, Heads, random_cache, reference, spans_of

from anaphora.models.attention.cuda import CudaAttention
from anaphora.models.attention.prefixes import SharingCost, find_shared_runs
from anaphora.models.attention.tasks import TaskBuilder, TaskPlan
from anaphora.models.attention.tiles import TileConfig
from anaphora.models.batch import SequenceSpan
from anaphora.models.kernels.attend import TaskTensors, Workspace

NUM_LAYERS = 28
EAGER_SHARING = SharingCost(per_run=0, per_query=0, max_query_len=256)
"""Shares whatever can be shared."""


def attention_of(heads: Heads, *, batch_invariant: bool = False) -> CudaAttention:
    """Our back end for these sizes on the GPU at hand."""
    return CudaAttention(
        num_heads=heads.num_heads,
        num_kv_heads=heads.num_kv_heads,
        head_dim=heads.dim,
        block_size=BLOCK_SIZE,
        device=torch.device("cuda", 0),
        dtype=heads.dtype,
        num_sms=torch.cuda.get_device_properties(0).multi_processor_count,
        batch_invariant=batch_invariant,
    )


@dataclass(frozen=True, slots=True)
class Problem:
    """A case with its tensors."""

    case: Case
    heads: Heads
    spans: list[SequenceSpan]
    queries: torch.Tensor
    cache: torch.Tensor

    @classmethod
    def make(cls, case: Case, heads: Heads, num_layers: int, seed: int) -> "Problem":
        """Random tables, queries, keys and values."""
        spans, num_blocks = spans_of(case, np.random.default_rng(seed))
        torch.manual_seed(seed)
        num_tokens = sum(query_len for query_len, _ in case.requests)
        queries = torch.randn(num_tokens, heads.num_heads, heads.dim, device="cuda").to(heads.dtype)
        return cls(case, heads, spans, queries, random_cache(spans, num_blocks, heads, num_layers))


def prepared(attention: CudaAttention, plan: TaskPlan) -> tuple[TaskTensors, Workspace]:
    """The plan on the device, and a workspace that is poisoned."""
    workspace = attention.workspace(max(plan.num_parts, 1))
    workspace.parts.fill_(math.nan)
    return attention.send(plan), workspace


def relative_error(attention: CudaAttention, plan: TaskPlan, problem: Problem) -> float:
    """Of the whole output against float64; NaN if any row was not written."""
    out = torch.full_like(problem.queries, math.nan)
    attention.attend(*prepared(attention, plan), plan.config, problem.queries, problem.cache[0], out)
    difference = norm = 0.0
    for span in problem.spans:
        rows = slice(span.query_start, span.query_start + span.query_len)
        wanted = reference(problem.queries[rows], span, problem.cache[0], problem.heads)
        difference += float((out[rows].double() - wanted).square().sum())
        norm += float(wanted.square().sum())
    return math.sqrt(difference / norm)


def plan_with(problem: Problem, config: TileConfig, *, share: bool) -> TaskPlan:
    """A plan with these sizes, sharing what can be shared or nothing."""
    heads = problem.heads
    runs = find_shared_runs(problem.spans, BLOCK_SIZE, EAGER_SHARING) if share else []
    group, num_tokens = heads.num_heads // heads.num_kv_heads, len(problem.queries)
    builder = TaskBuilder(problem.spans, BLOCK_SIZE, config, group=group, num_tokens=num_tokens)
    builder.add(runs)
    num_sms = torch.cuda.get_device_properties(0).multi_processor_count
    return builder.build(heads.num_kv_heads, num_sms * config.programs_per_sm)


def layer_us(attention: CudaAttention, plan: TaskPlan, problem: Problem, repeats: int = 9) -> float:
    """Microseconds a layer of the plan, without its upload."""
    (tensors, workspace), out = prepared(attention, plan), torch.empty_like(problem.queries)

    def layers() -> None:
        for layer in problem.cache:
            attention.attend(tensors, workspace, plan.config, problem.queries, layer, out)

    return graph_us(layers, repeats) / len(problem.cache)


def graph_us(work: Callable[[], object], repeats: int = 9) -> float:
    """Median microseconds of ``work`` replayed as a CUDA graph."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    times = []
    for _ in range(repeats + 2):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(1000 * start.elapsed_time(end))
    return float(statistics.median(times[2:]))

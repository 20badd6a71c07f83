"""Attention on CUDA: plans made on the host in numpy, kernels that a CUDA graph can hold.

Two ways to use it. As any :class:`anaphora.models.attention.base.Attention`: ``plan`` and ``run``, for steps of any
size. And for steps captured in graphs: :meth:`CudaAttention.static_step` allocates the tensors that a graph reads,
:meth:`StaticStep.fill` writes a step's plan into pinned memory, the runner copies it over, and
:meth:`CudaAttention.attend` launches the same two kernels whatever the plan says. A graph holds for one pair of static
step and tile configuration.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from anaphora.models.attention.prefixes import SharingCost, find_shared_runs
from anaphora.models.attention.static_step import StaticStep, StepCapacity
from anaphora.models.attention.tasks import TaskBuilder, TaskPlan
from anaphora.models.attention.tiles import TileConfig, tile_config
from anaphora.models.batch import ForwardBatch, SequenceSpan
from anaphora.models.kernels.attend import TaskTensors, Workspace, attend
from anaphora.models.kv_cache import PagedKVCache

SHARING = SharingCost(per_run=512, per_query=32, max_query_len=256)


@dataclass(frozen=True, slots=True)
class CudaPlan:
    """A batch's tasks on the device, in waves that fit the workspace, and where its new keys and values go."""

    slots: torch.Tensor
    waves: tuple[tuple[TileConfig, TaskTensors, Workspace], ...]


class CudaAttention:
    """See :class:`anaphora.models.attention.base.Attention`."""

    def __init__(
        self,
        *,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        block_size: int,
        device: torch.device,
        num_sms: int,
        batch_invariant: bool = False,
    ) -> None:
        self._num_heads = num_heads
        self._num_kv_heads = num_kv_heads
        self._head_dim = head_dim
        self._block_size = block_size
        self._device = device
        self._num_sms = num_sms
        self._batch_invariant = batch_invariant

    def plan_spans(self, spans: Sequence[SequenceSpan]) -> TaskPlan:
        """Tasks of a step, on the host. Block tables are best given as int32 arrays: lists have to be converted."""
        runs = [] if self._batch_invariant else find_shared_runs(spans, self._block_size, SHARING)
        group = self._num_heads // self._num_kv_heads
        fullest = max((span.query_len for span in spans), default=0)
        for run in runs:
            fullest = max(fullest, sum(spans[member].query_len for member in run.members))
        config = tile_config(fullest * group, self._batch_invariant)
        builder = TaskBuilder(spans, self._block_size, config.rows // group)
        builder.add(runs)
        return builder.build(config, self._num_kv_heads, self.num_programs(config))

    def num_programs(self, config: TileConfig) -> int:
        """How many programs run side by side."""
        return self._num_sms * config.programs_per_sm

    def static_step(self, capacity: StepCapacity) -> StaticStep:
        """Tensors for steps within ``capacity``, to be captured in graphs."""
        return StaticStep(capacity, self._num_heads, self._head_dim, self._device)

    def attend(
        self, step: StaticStep, config: TileConfig, queries: torch.Tensor, cache: torch.Tensor, out: torch.Tensor
    ) -> None:
        """Attend to a layer's ``cache`` as ``step``'s device tensors say; keys and values must have been written.

        ``queries``, ``out``: ``[T, num_heads, head_dim]`` with ``T`` up to the capacity's tokens.
        """
        self._attend(step.tensors, step.workspace, config, queries, cache, out)

    def plan(self, batch: ForwardBatch, kv: PagedKVCache) -> CudaPlan:
        """Tasks of the batch, and a workspace for their parts."""
        plan = self.plan_spans(batch.spans)
        workspace = Workspace.allocate(plan.num_parts, self._num_heads, self._head_dim, self._device)
        return CudaPlan(batch.slot_mapping.to(self._device), ((plan.config, self._tensors(plan), workspace),))

    def run(self, plan: CudaPlan, layer: int, heads: torch.Tensor, kv: PagedKVCache) -> torch.Tensor:
        """See the protocol."""
        kv.write(layer, plan.slots, heads[:, self._num_heads :])
        queries = heads[:, : self._num_heads].contiguous()
        out = torch.empty_like(queries)
        for config, tensors, workspace in plan.waves:
            self._attend(tensors, workspace, config, queries, kv.layer(layer), out)
        return out.flatten(1)

    def _attend(
        self,
        tensors: TaskTensors,
        workspace: Workspace,
        config: TileConfig,
        queries: torch.Tensor,
        cache: torch.Tensor,
        out: torch.Tensor,
    ) -> None:
        attend(
            queries,
            cache,
            tensors,
            workspace,
            out,
            config=config,
            block_size=self._block_size,
            num_programs=self.num_programs(config),
        )

    def _tensors(self, plan: TaskPlan) -> TaskTensors:
        num_tasks = np.array([plan.num_tasks], dtype=np.int32)
        arrays = (num_tasks, plan.work, plan.tokens, plan.positions, plan.part_start)
        return TaskTensors(*(torch.from_numpy(array).to(self._device) for array in arrays))

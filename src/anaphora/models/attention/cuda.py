"""Attention on CUDA: plans made on the host in numpy, kernels that a CUDA graph can hold.

Two ways to use it. As any :class:`anaphora.models.attention.base.Attention`: ``plan`` and ``run``, for steps of any
size. And for steps captured in graphs: :meth:`CudaAttention.plan_spans` plans on the host, the runner sends the plan
into tensors that stay in place, and :meth:`CudaAttention.attend` launches the same two kernels whatever they say. A
graph holds for one size of tiles.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from anaphora.models.attention.long_prefill import LongPrefill, LongPrefillPlan, find_dense_attention, split_long
from anaphora.models.attention.prefixes import SharingCost, find_shared_runs
from anaphora.models.attention.sharing import SharedRun
from anaphora.models.attention.tasks import TaskBuilder, TaskPlan
from anaphora.models.attention.tiles import FIXED_SPLIT, StepShape, TileConfig, step_configs, tile_config, tile_configs
from anaphora.models.attention.waves import split_into_waves
from anaphora.models.batch import ForwardBatch, SequenceSpan
from anaphora.models.kernels.attend import TaskTensors, Workspace, attend
from anaphora.models.kv_cache import PagedKVCache

SHARING = SharingCost(per_run=4096, per_query=64, max_query_len=256)
"""Measured on an H200: 4 requests gain from sharing 1024 tokens, 8 from 512, 32 from 256."""
MAX_WAVE_PARTS = 16384
"""Parts that a batch-invariant step makes at once: 235 MB with 28 heads of 128 elements."""


@dataclass(frozen=True, slots=True)
class Beside:
    """What a step holds beside its tasks: further waves of them, and long prefills."""

    waves: tuple[tuple[TaskPlan, TaskTensors, Workspace], ...]
    long: tuple[LongPrefillPlan, ...]


@dataclass(frozen=True, slots=True)
class CudaPlan:
    """A batch's tasks on the device, and where its new keys and values go."""

    slots: torch.Tensor
    tasks: TaskPlan
    tensors: TaskTensors
    workspace: Workspace


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
        dtype: torch.dtype = torch.bfloat16,
        batch_invariant: bool = False,
    ) -> None:
        """``batch_invariant``: what a query gets depends on its own request alone, to the bit. So there is no sharing,
        splits are fixed, and no library is asked."""
        self._num_heads = num_heads
        self._num_kv_heads = num_kv_heads
        self._head_dim = head_dim
        self._block_size = block_size
        self._device = device
        self._num_sms = num_sms
        self._dtype = dtype
        self._batch_invariant = batch_invariant
        self._configs = tile_configs(torch.cuda.get_device_capability(device) if device.type == "cuda" else (9, 0))
        dense = None if batch_invariant else find_dense_attention(num_heads, num_kv_heads, head_dim, dtype, device)
        self._long = None if dense is None else LongPrefill(dense, block_size, device)

    def warm_up(self, max_new_tokens: int, max_keys: int) -> None:
        """Build what the library needs for prefills of up to so many tokens, whose requests have up to ``max_keys``:
        about 0.1 s for each of its shapes."""
        if self._long is not None:
            sizes = self._num_heads, self._num_kv_heads, self._head_dim
            self._long.warm_up(*sizes, self._dtype, max_new_tokens, max_keys)

    def plan_spans(self, spans: Sequence[SequenceSpan]) -> TaskPlan:
        """Tasks of a step, on the host. Block tables are best given as int32 arrays: lists have to be converted.

        What tasks do not cover is :attr:`TaskPlan.beside`, for :meth:`attend_beside`.
        """
        num_tokens = max([span.query_start + span.query_len for span in spans], default=0)
        long, short = split_long(spans, self._long)
        waves = split_into_waves(short, FIXED_SPLIT, MAX_WAVE_PARTS) if self._batch_invariant else [short]
        first, *others = [self._plan_tasks(wave, num_tokens) for wave in waves]
        if not long and not others:
            return first
        workspace = self.workspace(max([other.num_parts for other in others], default=0))
        prefills = tuple(self._long.plan(span) for span in long) if self._long is not None else ()
        beside = Beside(tuple((other, self.send(other), workspace) for other in others), prefills)
        return replace(first, beside=beside, margin=max([prefill.margin for prefill in prefills], default=0))

    def _plan_tasks(self, spans: Sequence[SequenceSpan], num_tokens: int) -> TaskPlan:
        """``num_tokens``: of the flat batch, of which ``spans`` may be a part."""
        runs = [] if self._batch_invariant else find_shared_runs(spans, self._block_size, SHARING)
        group = self._num_heads // self._num_kv_heads
        shape = _shape(spans, runs, group)
        is_float32 = self._dtype is torch.float32
        config = tile_config(self._configs, shape, batch_invariant=self._batch_invariant, is_float32=is_float32)
        if not spans:
            return TaskPlan.of_nothing(config, num_tokens)
        builder = TaskBuilder(spans, self._block_size, config, group=group, num_tokens=num_tokens)
        builder.add(runs)
        return builder.build(self._num_kv_heads, self.num_programs(config))

    def step_configs(self, fewest: int, most: int) -> tuple[TileConfig, ...]:
        """Every size that steps of ``fewest`` to ``most`` new tokens can have, as long as they hold no long prefill."""
        return step_configs(
            self._configs,
            fewest,
            most,
            self._num_heads // self._num_kv_heads,
            batch_invariant=self._batch_invariant,
            is_float32=self._dtype is torch.float32,
        )

    def num_programs(self, config: TileConfig) -> int:
        """How many programs run side by side."""
        return self._num_sms * config.programs_per_sm

    def attend_beside(self, beside: Beside, queries: torch.Tensor, cache: torch.Tensor, out: torch.Tensor) -> None:
        """As :meth:`attend`, for what a plan holds beside its tasks."""
        for tasks, tensors, workspace in beside.waves:
            self.attend(tensors, workspace, tasks.config, queries, cache, out, may_join=tasks.num_parts > 0)
        for long in beside.long:
            assert self._long is not None
            self._long.run(long, queries, cache, out)

    def attend_alone(self, beside: Beside, queries: torch.Tensor, cache: torch.Tensor) -> torch.Tensor | None:
        """What ``queries`` get in a step that is one long prefill, where it lies already; ``None`` if there is more."""
        if beside.waves or len(beside.long) != 1 or beside.long[0].rows != slice(0, len(queries)):
            return None
        assert self._long is not None
        return self._long.run(beside.long[0], queries, cache)

    def plan(self, batch: ForwardBatch, kv: PagedKVCache) -> CudaPlan:
        """Tasks of the batch, and a workspace for their parts."""
        plan = self.plan_spans(batch.spans)
        return CudaPlan(batch.slot_mapping.to(self._device), plan, self.send(plan), self.workspace(plan.num_parts))

    def run(self, plan: CudaPlan, layer: int, heads: torch.Tensor, kv: PagedKVCache) -> torch.Tensor:
        """See the protocol."""
        kv.write(layer, plan.slots, heads[:, self._num_heads :])
        queries = heads[:, : self._num_heads].contiguous()
        out = torch.empty_like(queries)
        self.attend_planned(plan, queries, kv.layer(layer), out)
        return out.flatten(1)

    def attend_planned(self, plan: CudaPlan, queries: torch.Tensor, cache: torch.Tensor, out: torch.Tensor) -> None:
        """As :meth:`attend`, for a plan of :meth:`plan`."""
        tasks = plan.tasks
        if tasks.num_tasks:
            may_join = tasks.num_parts > 0
            self.attend(plan.tensors, plan.workspace, tasks.config, queries, cache, out, may_join=may_join)
        if tasks.beside is not None:
            self.attend_beside(tasks.beside, queries, cache, out)

    def attend(
        self,
        tensors: TaskTensors,
        workspace: Workspace,
        config: TileConfig,
        queries: torch.Tensor,
        cache: torch.Tensor,
        out: torch.Tensor,
        *,
        may_join: bool = True,
    ) -> None:
        """Attend to a layer's ``cache`` as ``tensors`` say; keys and values must have been written.

        ``queries``, ``out``: ``[T, num_heads, head_dim]``. ``may_join=False``: no query has parts.
        """
        attend(
            queries,
            cache,
            tensors,
            workspace,
            out,
            config=config,
            block_size=self._block_size,
            num_programs=self.num_programs(config),
            may_join=may_join,
        )

    def workspace(self, num_parts: int) -> Workspace:
        """Room for the parts of a plan."""
        return Workspace.allocate(num_parts, self._num_heads, self._head_dim, self._device)

    def send(self, plan: TaskPlan) -> TaskTensors:
        """A plan's tasks as tensors on the device."""
        num_tasks = np.array([plan.num_tasks], dtype=np.int32)
        arrays = (num_tasks, plan.work, plan.tokens, plan.part_start)
        return TaskTensors(*(torch.from_numpy(array).to(self._device) for array in arrays))


def _shape(spans: Sequence[SequenceSpan], runs: Sequence[SharedRun], group: int) -> StepShape:
    lengths = [span.query_len for span in spans]
    of_runs = [sum(lengths[member] for member in run.members) for run in runs]
    return StepShape(
        num_requests=len(spans),
        fewest_rows=group * min(lengths, default=0),
        most_rows=group * max(lengths + of_runs, default=0),
        most_keys=max([span.kv_len for span in spans], default=0),
    )

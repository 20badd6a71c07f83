"""The Triton kernels behind the two seams of a pass: operators and attention. Imported only where Triton is."""

from collections.abc import Sequence

import torch

from anaphora.models.attention.cuda import CudaAttention
from anaphora.models.attention.tasks import TaskPlan
from anaphora.models.attention.tiles import TileConfig
from anaphora.models.batch import SequenceSpan
from anaphora.models.device.batch import DeviceTasks
from anaphora.models.device.operators import Norms
from anaphora.models.kernels.attend import TaskTensors, Workspace, attend
from anaphora.models.kernels.mlp import silu_mul
from anaphora.models.kernels.norm import rms_norm
from anaphora.models.kernels.rotary import rotate_and_cache, rotations
from anaphora.models.kernels.skinny import MAX_ROWS, SkinnyLinear
from anaphora.models.kernels.tokens import Argmax, gather_rows, move_slots
from anaphora.models.linear import Linear


class TritonOperators:
    """See :class:`anaphora.models.device.operators.Operators`."""

    def __init__(self, max_rows: int, vocab_size: int, device: torch.device) -> None:
        """Greedy sampling takes up to ``max_rows`` rows of ``vocab_size`` logits."""
        self._argmax = Argmax(max_rows, vocab_size, device)
        self._early = launches_early(device)

    def product(self, linear: Linear, x: torch.Tensor) -> torch.Tensor:
        return linear.parts(x, early=self._early) if isinstance(linear, SkinnyLinear) else linear(x)

    def add_product(
        self,
        linear: Linear,
        x: torch.Tensor,
        residual: torch.Tensor,
        weight: torch.Tensor,
        eps: float,
        out: torch.Tensor,
    ) -> None:
        if isinstance(linear, SkinnyLinear) and len(x) > MAX_ROWS:
            rms_norm(linear.add_to(residual, x), weight, eps, out, early=self._early)
        else:
            rms_norm(self.product(linear, x), weight, eps, out, residual, early=self._early)

    def gated_product(self, linear: Linear, x: torch.Tensor, out: torch.Tensor) -> None:
        if isinstance(linear, SkinnyLinear) and len(x) <= MAX_ROWS:
            linear.gated(x, out, early=self._early)
        else:
            silu_mul(linear(x), out, early=self._early)

    def gather_rows(
        self, table: torch.Tensor, rows: torch.Tensor, out: torch.Tensor, earlier: torch.Tensor | None = None
    ) -> None:
        gather_rows(table, rows, out, earlier)

    def rotations(self, positions: torch.Tensor, frequencies: torch.Tensor, length: float, out: torch.Tensor) -> None:
        rotations(positions, frequencies, length, out)

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor) -> None:
        rms_norm(x, weight, eps, out, early=self._early)

    def rotate_and_cache(
        self,
        heads: torch.Tensor,
        rotation: torch.Tensor,
        slots: torch.Tensor,
        cache: torch.Tensor,
        queries: torch.Tensor,
        norms: Norms | None = None,
    ) -> None:
        rotate_and_cache(heads, rotation, slots, cache, queries, norms, early=self._early)

    def argmax(self, logits: torch.Tensor, out: torch.Tensor) -> None:
        self._argmax(logits, out)

    def move_slots(self, storage: torch.Tensor, pairs: torch.Tensor) -> None:
        move_slots(storage, pairs)


class TritonAttention:
    """See :class:`anaphora.models.device.attention.DeviceAttention`."""

    def __init__(
        self, attention: CudaAttention, *, num_heads: int, head_dim: int, block_size: int, device: torch.device
    ) -> None:
        self._attention = attention
        self._num_heads = num_heads
        self._head_dim = head_dim
        self._block_size = block_size
        self._device = device
        self._early = launches_early(device)

    def plan_spans(self, spans: Sequence[SequenceSpan]) -> TaskPlan:
        """See the protocol."""
        return self._attention.plan_spans(spans)

    def step_configs(self, fewest: int, most: int) -> Sequence[TileConfig]:
        """See the protocol."""
        return self._attention.step_configs(fewest, most)

    def workspace(self, num_parts: int) -> Workspace:
        """See the protocol."""
        return Workspace.allocate(num_parts, self._num_heads, self._head_dim, self._device)

    def run(self, tasks: DeviceTasks, queries: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        """See the protocol."""
        if tasks.beside is not None:
            alone = self._attention.attend_alone(tasks.beside, queries, cache)
            if alone is not None:
                return alone
        out = torch.empty_like(queries)
        attend(
            queries,
            cache,
            TaskTensors(tasks.num_tasks, tasks.work, tasks.tokens, tasks.part_start),
            tasks.workspace,
            out,
            config=tasks.config,
            block_size=self._block_size,
            num_programs=self._attention.num_programs(tasks.config),
            may_join=tasks.may_join,
            early=self._early,
        )
        if tasks.beside is not None:
            self._attention.attend_beside(tasks.beside, queries, cache, out)
        return out

    def warm_up(self, max_new_tokens: int, max_keys: int) -> None:
        """See the protocol."""
        self._attention.warm_up(max_new_tokens, max_keys)


def launches_early(device: torch.device) -> bool:
    """Whether a GPU can launch a kernel before the one that it depends on has ended."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)

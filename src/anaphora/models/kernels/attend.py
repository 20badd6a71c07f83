"""Launching the attention kernels."""

from dataclasses import dataclass

import torch
import triton

from anaphora.models.attention.tiles import TileConfig
from anaphora.models.kernels.early import launch_options
from anaphora.models.kernels.launch import launch
from anaphora.models.kernels.paged_attention import LOG2_E, attend_kernel, join_kernel

PARTS_A_STEP = 32
"""Parts joined at once: fixed, so that the order of additions is."""


@dataclass(frozen=True, slots=True)
class TaskTensors:
    """A :class:`anaphora.models.attention.tasks.TaskPlan` on the device; int32. Longer than needed does no harm."""

    num_tasks: torch.Tensor
    """``[1]``."""
    work: torch.Tensor
    tokens: torch.Tensor
    part_start: torch.Tensor


@dataclass(frozen=True, slots=True)
class Workspace:
    """Room for ``P`` parts; used by one layer after another."""

    parts: torch.Tensor
    """``[P, num_heads, head_dim]`` float32."""
    lse: torch.Tensor
    """``[P, num_heads]`` float32, base 2."""

    @classmethod
    def allocate(cls, num_parts: int, num_heads: int, head_dim: int, device: torch.device) -> "Workspace":
        """Room for so many parts, uninitialised."""
        parts = torch.empty((num_parts, num_heads, head_dim), dtype=torch.float32, device=device)
        return cls(parts, torch.empty((num_parts, num_heads), dtype=torch.float32, device=device))


def attend(
    queries: torch.Tensor,
    cache: torch.Tensor,
    tensors: TaskTensors,
    workspace: Workspace,
    out: torch.Tensor,
    *,
    config: TileConfig,
    block_size: int,
    num_programs: int,
    may_join: bool = True,
    early: bool = False,
) -> None:
    """Attention of ``queries`` ``[T, num_heads, head_dim]`` over a layer's ``[2, num_kv_heads, num_slots, head_dim]``.

    ``out``: as ``queries``; rows that no task has stay as they were. Launches two kernels whose grids depend on nothing
    but ``T``, the heads, ``config`` and ``num_programs``; without ``may_join``, for plans without parts, only one.
    ``early``: see :mod:`anaphora.models.kernels.early`.
    """
    num_tokens, num_heads, dim = queries.shape
    num_kv_heads, num_slots = cache.shape[1:3]
    assert num_slots * dim < 2**31, "offsets within a head are 32-bit"
    padded = triton.next_power_of_2(dim)
    launch(
        attend_kernel,
        (num_programs,),
        queries,
        cache,
        tensors.work,
        tensors.num_tasks,
        tensors.tokens,
        tensors.part_start,
        workspace.parts,
        workspace.lse,
        out,
        dim**-0.5 * LOG2_E,
        num_slots,
        NUM_KV_HEADS=num_kv_heads,
        GROUP=num_heads // num_kv_heads,
        DIM=dim,
        PADDED=padded,
        BLOCK_SIZE=block_size,
        ROWS=config.rows,
        FEW_ROWS=config.few_rows,
        COLUMNS=config.columns,
        PRECISION="ieee" if queries.dtype is torch.float32 else "tf32",
        EARLY=early,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        **launch_options(early),
    )
    if not may_join:
        return
    launch(
        join_kernel,
        (num_tokens, num_heads),
        tensors.part_start,
        workspace.parts,
        workspace.lse,
        out,
        NUM_HEADS=num_heads,
        DIM=dim,
        PADDED=padded,
        STEP=PARTS_A_STEP,
        EARLY=early,
        num_warps=2,
        **launch_options(early),
    )

"""What a pass on a device is given: int32 tensors in fixed places, padded to fixed shapes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from anaphora.models.attention.tiles import TileConfig


@dataclass(frozen=True, slots=True)
class DeviceTasks:
    """A :class:`anaphora.models.attention.tasks.TaskPlan` on the device; behind what is in use there is padding."""

    config: TileConfig
    num_tasks: torch.Tensor
    """``[1]``."""
    work: torch.Tensor
    """Tasks, and behind them pieces of block tables."""
    tokens: torch.Tensor
    """Rows of the flat batch that tasks name by their place here."""
    positions: torch.Tensor
    """``[T]``."""
    part_start: torch.Tensor
    """``[T + 1]``."""
    workspace: Any
    """Where the attention keeps parts of results; its own affair."""
    may_join: bool = True
    """Without it no query has parts to be joined. A captured pass must not rely on that."""
    beside: Any = None
    """What the attention does beside these tasks; never in a captured pass."""
    margin: int = 0
    """Rows before the queries, and behind them, that the attention may read, whatever they hold."""


@dataclass(frozen=True, slots=True)
class DeviceBatch:
    """``T`` tokens of some requests, flat, and ``R`` rows whose logits are wanted. Both may end in padding.

    A token that is padding has slot -1: nothing is written for it, and what is computed for it means nothing.
    """

    token_ids: torch.Tensor
    """``[T]``; ``-1 - i`` stands for what ``sampled[i]`` holds: the host need not know it yet."""
    positions: torch.Tensor
    """``[T]``."""
    slots: torch.Tensor
    """``[T]``: where keys and values are written."""
    logits_rows: torch.Tensor
    """``[R]``: rows of the flat batch."""
    sampled: torch.Tensor
    """Token ids that the pass before chose, by its rows of logits."""
    tasks: DeviceTasks
    last_tasks: Callable[[], DeviceTasks] | None = None
    """Makes those of the last layer, for the rows of logits alone, as nobody needs what its other queries read: when it
    comes to that, since the device has the other layers to compute meanwhile. ``None``: all."""

"""The tensors that a captured graph reads a step's tasks from: fixed addresses, filled anew for every step."""

from dataclasses import dataclass

import numpy as np
import torch

from anaphora.models.attention.tasks import TASK_WORDS, TaskPlan
from anaphora.models.kernels.attend import TaskTensors, Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCapacity:
    """How large the steps may be that a graph is captured for."""

    num_tokens: int
    num_blocks: int
    """Entries of block tables in all; shared blocks count once."""
    num_tasks: int = 2048
    num_listed: int = 1024
    """Queries of shared runs; a query of two runs counts twice."""
    num_parts: int = 2048


class StaticStep:
    """One int32 buffer on the host (pinned) and one on the device.

    The device's is read by graphs; the first ``fill(...)`` words of the host's are what must be copied before a replay.
    """

    def __init__(self, capacity: StepCapacity, num_heads: int, head_dim: int, device: torch.device) -> None:
        self.capacity = capacity
        sizes = {
            "num_tasks": 1,
            "part_start": capacity.num_tokens + 1,
            "tokens": capacity.num_listed,
            "work": capacity.num_tasks * TASK_WORDS + capacity.num_blocks,
        }
        starts = [0]
        for size in sizes.values():
            starts.append(starts[-1] + -(-size // 4) * 4)  # tasks are read 16 bytes at a time
        self._places = {name: (at, size) for at, (name, size) in zip(starts, sizes.items(), strict=False)}
        self.host = torch.zeros(starts[-1], dtype=torch.int32, pin_memory=device.type == "cuda")
        self.device = torch.zeros(starts[-1], dtype=torch.int32, device=device)
        self._words = self.host.numpy()
        self.tensors = TaskTensors(**{name: self.device[at : at + size] for name, (at, size) in self._places.items()})
        self.workspace = Workspace.allocate(capacity.num_parts, num_heads, head_dim, device)

    def fits(self, plan: TaskPlan) -> bool:
        """Whether the plan is within the capacity."""
        return plan.num_parts <= self.capacity.num_parts and all(
            array.size <= self._places[name][1] for name, array in _arrays(plan).items()
        )

    def fill(self, plan: TaskPlan) -> int:
        """Write a plan that fits into the host's buffer. Returns how many of its words must be copied."""
        for name, array in _arrays(plan).items():
            start, _ = self._places[name]
            self._words[start : start + array.size] = array
        start, size = self._places["part_start"]
        self._words[start + len(plan.part_start) : start + size] = plan.num_parts  # padding has no parts
        return self._places["work"][0] + len(plan.work)

    def upload(self, num_words: int) -> None:
        """Copy so many words to the device, on the current stream, without waiting."""
        self.device[:num_words].copy_(self.host[:num_words], non_blocking=True)


def _arrays(plan: TaskPlan) -> dict[str, np.ndarray]:
    return {
        "num_tasks": np.array([plan.num_tasks], dtype=np.int32),
        "part_start": plan.part_start,
        "tokens": plan.tokens,
        "work": plan.work,
    }

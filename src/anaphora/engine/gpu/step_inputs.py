"""A step's integers on their way to the device: packed into one host buffer, sent by one copy, read in place by a pass.

Graphs read fixed addresses, so every list has a fixed place in the buffer and room for the most it may hold. Tasks and
block tables come last: only as much of them is sent as is in use.
"""

from dataclasses import dataclass
from itertools import accumulate

import torch

from anaphora.engine.gpu.flat_batch import FlatBatch, IntArray
from anaphora.models.attention.tasks import TaskPlan
from anaphora.models.attention.tiles import TileConfig
from anaphora.models.device.batch import DeviceBatch, DeviceTasks

ALIGNMENT = 4
"""Words. Kernels read four at a time."""


@dataclass(frozen=True, slots=True)
class Room:
    """How much of everything fits. A captured step has room for the most it may be given, an eager one for itself."""

    num_tokens: int
    num_rows: int
    """Rows of logits."""
    num_listed: int
    """Rows of the flat batch that shared tasks name; of two shared runs, twice."""
    num_work: int
    """Words of tasks and block tables."""
    num_parts: int
    """Parts of attention that are put together at the end."""

    @classmethod
    def of(cls, batch: FlatBatch, plan: TaskPlan) -> "Room":
        """Just enough for one step."""
        return cls(batch.num_tokens, len(batch.logits_rows), len(plan.tokens), len(plan.work), plan.num_parts)

    def holds(self, batch: FlatBatch, plan: TaskPlan) -> bool:
        """Whether a step fits, and is all that there is to do."""
        return (
            plan.beside is None
            and batch.num_tokens <= self.num_tokens
            and len(batch.logits_rows) <= self.num_rows
            and len(plan.tokens) <= self.num_listed
            and len(plan.work) <= self.num_work
            and plan.num_parts <= self.num_parts
        )

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """Where each list begins and how long it may be, in words: token ids, positions, slots, where parts begin, rows
        of logits, number of tasks, listed tokens, work."""
        tokens = self.num_tokens
        sizes = (tokens, tokens, tokens, tokens + 1, self.num_rows, 1, self.num_listed, max(1, self.num_work))
        starts = accumulate((-(-size // ALIGNMENT) * ALIGNMENT for size in sizes), initial=0)
        return tuple(zip(starts, sizes, strict=False))

    @property
    def num_words(self) -> int:
        start, size = self.places[-1]
        return start + size


class HostInputs:
    """The buffer on the host, page-locked where a device reads it."""

    def __init__(self, room: Room, *, pinned: bool, reused: bool = True) -> None:
        """``reused``: by further steps, each of which waits until the one before was read."""
        self.room = room
        self.tensor = torch.zeros(room.num_words, dtype=torch.int32, pin_memory=pinned)
        self._words = self.tensor.numpy()
        self._places = room.places
        self.was_read = torch.cuda.Event() if pinned and reused else None  # type: ignore[no-untyped-call]
        """By the device, which reads it when its turn comes: that may be several passes later."""

    def fill(self, batch: FlatBatch, plan: TaskPlan) -> int:
        """Write a step, once the one before was read; what is padding reads as nothing. Returns how many words are in
        use."""
        if self.was_read is not None:
            self.was_read.synchronize()
        lists: tuple[tuple[tuple[int, ...] | IntArray, int], ...] = (
            (batch.token_ids, 0),
            (batch.positions, 0),
            (batch.slots, -1),
            (plan.part_start, plan.num_parts),
            (batch.logits_rows, 0),
            ((plan.num_tasks,), 0),
            (plan.tokens, 0),
        )
        words, (*places, (work, _)) = self._words, self._places
        for (values, filler), (start, size) in zip(lists, places, strict=True):
            end = start + len(values)
            words[start:end] = values
            words[end : start + size] = filler
        end = work + len(plan.work)
        words[work:end] = plan.work
        return end


class DeviceInputs:
    """The buffer on the device, and the batches that read it."""

    def __init__(self, room: Room, device: torch.device) -> None:
        """It holds nothing of use until a step is sent, which fills the room but for work that it has not."""
        self.room = room
        self.tensor = torch.empty(room.num_words, dtype=torch.int32, device=device)

    def clear(self) -> None:
        """A step of nothing but padding."""
        self.tensor.zero_()
        start, size = self.room.places[2]
        self.tensor[start : start + size] = -1

    def send(self, host: HostInputs, num_words: int) -> None:
        """Begin to copy what is in use; in the order of the stream, without waiting if the host's is page-locked."""
        self.tensor[:num_words].copy_(host.tensor[:num_words], non_blocking=True)
        if host.was_read is not None:
            host.was_read.record()

    def batch(
        self,
        num_tokens: int,
        num_rows: int,
        config: TileConfig,
        workspace: object,
        sampled: torch.Tensor,
        plan: TaskPlan | None = None,
    ) -> DeviceBatch:
        """Views of the first ``num_tokens`` tokens and ``num_rows`` rows of logits. ``plan``: if for this one alone."""
        views = (self.tensor[start : start + size] for start, size in self.room.places)
        token_ids, positions, slots, part_start, logits_rows, num_tasks, listed, work = views
        return DeviceBatch(
            token_ids=token_ids[:num_tokens],
            positions=positions[:num_tokens],
            slots=slots[:num_tokens],
            logits_rows=logits_rows[:num_rows],
            sampled=sampled,
            tasks=DeviceTasks(
                config=config,
                num_tasks=num_tasks,
                work=work,
                tokens=listed,
                positions=positions[:num_tokens],
                part_start=part_start[: num_tokens + 1],
                workspace=workspace,
                may_join=plan is None or plan.num_parts > 0,
                beside=None if plan is None else plan.beside,
                margin=0 if plan is None else plan.margin,
            ),
        )

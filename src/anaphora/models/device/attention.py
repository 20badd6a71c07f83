"""Attention of a pass on a device, as a seam: the tasks of a plan one after another, or Triton kernels."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from anaphora.models.attention.prefixes import SharingCost, find_shared_runs
from anaphora.models.attention.tasks import TASK_WORDS, TaskBuilder, TaskPlan
from anaphora.models.attention.tiles import TileConfig
from anaphora.models.batch import SequenceSpan
from anaphora.models.device.batch import DeviceTasks


class DeviceAttention(Protocol):
    """Plans a step on the host, and attends to one layer's cache as the plan says."""

    def plan_spans(self, spans: Sequence[SequenceSpan]) -> TaskPlan:
        """Tasks of a step. Block tables are best given as int32 arrays."""
        ...

    def step_configs(self, fewest: int, most: int) -> Sequence[TileConfig]:
        """Every size that plans of ``fewest`` to ``most`` new tokens can have; a captured pass holds for one."""
        ...

    def workspace(self, num_parts: int) -> Any:
        """What :meth:`run` needs beside the tasks if they have so many parts."""
        ...

    def run(self, tasks: DeviceTasks, queries: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        """``queries`` ``[T, num_heads, head_dim]`` to what they get, of the same shape; ``cache``: ``[2, num_kv_heads,
        num_slots, head_dim]``, in which the pass's own keys and values are already."""
        ...

    def warm_up(self, max_new_tokens: int, max_keys: int) -> None:
        """Build what steps of up to so many new tokens, of requests of up to ``max_keys`` tokens, need: so no request
        waits for it."""
        ...


PLAIN_TILES = TileConfig(rows=64, columns=32, num_warps=1, num_stages=1, programs_per_sm=1, task_keys=64)
"""Nothing is gained by tiles here: they are small so that few tokens make several."""


class PlainAttention:
    """The tasks by their definition, one by one, in float32: slow, and right on every device."""

    def __init__(self, num_heads: int, num_kv_heads: int, block_size: int, sharing: SharingCost | None = None) -> None:
        """``sharing``: when blocks of several requests are read once for all; ``None``: never."""
        self._num_kv_heads = num_kv_heads
        self._group = num_heads // num_kv_heads
        self._block_size = block_size
        self._sharing = sharing

    def plan_spans(self, spans: Sequence[SequenceSpan]) -> TaskPlan:
        """See the protocol."""
        runs = [] if self._sharing is None else find_shared_runs(spans, self._block_size, self._sharing)
        num_tokens = max(span.query_start + span.query_len for span in spans)
        builder = TaskBuilder(spans, self._block_size, PLAIN_TILES, group=self._group, num_tokens=num_tokens)
        builder.add(runs)
        return builder.build(self._num_kv_heads, num_programs=4)

    def step_configs(self, fewest: int, most: int) -> Sequence[TileConfig]:
        """See the protocol."""
        return (PLAIN_TILES,)

    def workspace(self, num_parts: int) -> None:
        """Nothing."""

    def warm_up(self, max_new_tokens: int, max_keys: int) -> None:
        """Nothing."""

    def run(self, tasks: DeviceTasks, queries: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        """See the protocol."""
        out = torch.empty_like(queries)
        parts: list[list[tuple[int, torch.Tensor, torch.Tensor]]] = [[] for _ in range(len(queries))]
        num_words = int(tasks.num_tasks) * TASK_WORDS
        for words in tasks.work[:num_words].view(-1, TASK_WORDS).tolist():
            first, num_rows, start, end, table, ordinal = words[:6]
            row = first if first >= 0 else -1 - first
            places = torch.arange(row // self._group, -(-(row + num_rows) // self._group), device=queries.device)
            tokens = places if first >= 0 else tasks.tokens[places].long()
            keys = torch.arange(start, end, device=queries.device)
            slots = tasks.work[table + keys // self._block_size].long() * self._block_size + keys % self._block_size
            hidden = keys[None, :] > tasks.positions[tokens].long()[:, None]
            mixed, lse = self._attend(queries[tokens], cache[:, :, slots], hidden)
            of_heads = places[:, None] * self._group + torch.arange(lse.shape[1], device=queries.device) % self._group
            lse = lse.masked_fill((of_heads < row) | (of_heads >= row + num_rows), -torch.inf)  # another task's
            for index, token in enumerate(tokens.tolist()):
                parts[token].append((ordinal, mixed[index], lse[index]))
        for token, of_token in enumerate(parts):
            if of_token:  # none: padding
                out[token] = _joined([part[1:] for part in sorted(of_token, key=lambda part: part[0])])
        return out

    def _attend(
        self, queries: torch.Tensor, cached: torch.Tensor, hidden: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """``[Q, num_heads, D]`` and ``[Q, num_heads]``: mean of the values, and log-sum-exp of the scores."""
        keys, values = cached.float().repeat_interleave(self._group, dim=1)
        scores = torch.einsum("qhd,hkd->qhk", queries.float(), keys) * queries.shape[-1] ** -0.5
        scores = scores.masked_fill(hidden[:, None, :], -torch.inf)
        lse = scores.logsumexp(-1)
        weights = (scores - lse[..., None]).exp().nan_to_num(0.0)  # a part in which a query sees no key
        return torch.einsum("qhk,hkd->qhd", weights, values), lse


def _joined(parts: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    """Parts of one query by the shares of their sums of exponentials."""
    lse = torch.stack([part[1] for part in parts])
    mixed = torch.stack([part[0] for part in parts])
    return (mixed * lse.softmax(0)[..., None]).sum(0)

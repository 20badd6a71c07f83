"""From a step's schedule to flat tensors. A step is one pass, or several where logits are many."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from anaphora.models.batch import ForwardBatch, SequenceSpan
from anaphora.types import RequestId


class Chunk(NamedTuple):
    """A run of one request's tokens, to be computed in one pass.

    ``token_ids`` stand at positions ``[start, start + len(token_ids))``; ``logits_positions`` is a part of that range.
    With ``samples`` its last position is the chunk's last, whose logits give the next token; all others are for the
    prompt's log-probabilities.
    """

    request_id: RequestId
    token_ids: Sequence[int]
    start: int
    block_table: Sequence[int]
    logits_positions: range
    samples: bool

    @property
    def stop(self) -> int:
        """One past the last position."""
        return self.start + len(self.token_ids)

    def split(self, position: int) -> tuple["Chunk", "Chunk"]:
        """What stands before ``position``, and the rest."""
        cut, wanted = position - self.start, self.logits_positions
        head = self._replace(
            token_ids=self.token_ids[:cut],
            logits_positions=range(min(wanted.start, position), min(wanted.stop, position)),
            samples=False,
        )
        tail = self._replace(
            token_ids=self.token_ids[cut:],
            start=position,
            logits_positions=range(max(wanted.start, position), max(wanted.stop, position)),
        )
        return head, tail


def split_into_passes(chunks: Sequence[Chunk], max_logits_rows: int) -> Iterator[list[Chunk]]:
    """Passes in the order of ``chunks``, each with at most ``max_logits_rows`` rows of logits.

    So the memory of logits is bounded when those of every prompt token are asked for. The order is kept because a
    request may attend to blocks that one before it in the step computes.
    """
    current: list[Chunk] = []
    room = max_logits_rows
    for chunk in chunks:
        rest = chunk
        while len(rest.logits_positions) > room:
            head, rest = rest.split(rest.logits_positions.start + room)
            yield [*current, head] if head.token_ids else current
            current, room = [], max_logits_rows
        current.append(rest)
        room -= len(rest.logits_positions)
    if current:
        yield current


def forward_batch(chunks: Sequence[Chunk], block_size: int) -> ForwardBatch:
    """The flat batch of one pass; rows of logits come in the order of ``chunks`` and of their ``logits_positions``."""
    spans, positions, slots, rows = [], [], [], []
    first_row = 0
    for chunk in chunks:
        at = np.arange(chunk.start, chunk.stop)
        first_block = chunk.start // block_size
        blocks = np.array(chunk.block_table[first_block : -(-chunk.stop // block_size)])
        positions.append(at)
        slots.append(blocks[at // block_size - first_block] * block_size + at % block_size)
        wanted = chunk.logits_positions
        rows.append(np.arange(wanted.start, wanted.stop) + (first_row - chunk.start))
        spans.append(SequenceSpan(first_row, len(at), chunk.stop, chunk.block_table))
        first_row += len(at)
    return ForwardBatch(
        token_ids=torch.from_numpy(np.concatenate([np.array(chunk.token_ids, dtype=np.int64) for chunk in chunks])),
        positions=torch.from_numpy(np.concatenate(positions)),
        slot_mapping=torch.from_numpy(np.concatenate(slots)),
        spans=tuple(spans),
        logits_rows=torch.from_numpy(np.concatenate(rows)),
    )

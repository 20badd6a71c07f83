"""A step's chunks as flat int32 arrays, with little Python per request: a hit waits for this."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from anaphora.engine.input_batch import Chunk
from anaphora.models.batch import SequenceSpan

IntArray = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class FlatBatch:
    """``T`` tokens, ``R`` rows of them whose logits are wanted, and one span for each chunk."""

    token_ids: IntArray
    positions: IntArray
    slots: IntArray
    logits_rows: IntArray
    spans: tuple[SequenceSpan, ...]

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)


def flatten(chunks: Sequence[Chunk], block_size: int) -> FlatBatch:
    """The chunks one after another; rows of logits in their order.

    Of each chunk its tokens and the few blocks that they lie in are gathered; the rest is done for all at once.
    """
    token_ids, blocks, rows = array("i"), array("i"), array("i")
    lengths, position_shifts, block_shifts = array("i"), array("i"), array("i")  # of a chunk's rows
    spans = []
    row = 0
    for chunk in chunks:
        _, tokens, start, table, wanted, _ = chunk
        length, first_block = len(tokens), start // block_size
        lengths.append(length)
        position_shifts.append(start - row)
        block_shifts.append(len(blocks) - first_block)
        if length == 1:  # it decodes
            token_ids.append(tokens[0])
            blocks.append(table[first_block])
        else:
            _append(token_ids, tokens)
            _append(blocks, table[first_block : -(-(start + length) // block_size)])
        rows.extend(range(row + wanted.start - start, row + wanted.stop - start))
        as_numpy: Any = int32(table)
        spans.append(SequenceSpan(row, length, start + length, as_numpy))
        row += length
    counts = int32(lengths)
    positions = np.arange(row, dtype=np.int32) + int32(position_shifts).repeat(counts)
    places = positions // block_size + int32(block_shifts).repeat(counts)
    slots = int32(blocks)[places] * block_size + positions % block_size
    return FlatBatch(int32(token_ids), positions, slots, int32(rows), tuple(spans))


def one_token_each(
    token_ids: Sequence[int],
    positions: Sequence[int],
    block_ids: Sequence[int],
    block_tables: Sequence[Sequence[int]],
    block_size: int,
) -> FlatBatch:
    """The same of requests that decode: one token of each, at its position in one of its blocks, and its logits."""
    at = np.array(positions, dtype=np.int32)
    slots = np.array(block_ids, dtype=np.int32) * block_size + at % block_size
    spans = []
    for row, (position, table) in enumerate(zip(positions, block_tables, strict=True)):
        as_numpy: Any = int32(table)
        spans.append(SequenceSpan(row, 1, position + 1, as_numpy))
    rows = np.arange(len(spans), dtype=np.int32)
    return FlatBatch(np.array(token_ids, dtype=np.int32), at, slots, rows, tuple(spans))


def logits_rows_alone(batch: FlatBatch) -> FlatBatch:
    """The tokens whose logits are wanted, each a request's only new one, of which nothing is stored."""
    rows = batch.logits_rows
    starts = np.array([span.query_start for span in batch.spans], dtype=np.int32)
    of = np.searchsorted(starts, rows, side="right") - 1
    positions = batch.positions[rows]
    spans = [
        SequenceSpan(index, 1, position + 1, batch.spans[owner].block_table)
        for index, (position, owner) in enumerate(zip(positions.tolist(), of.tolist(), strict=True))
    ]
    numbers = np.arange(len(rows), dtype=np.int32)
    return FlatBatch(batch.token_ids[rows], positions, np.full(len(rows), -1, dtype=np.int32), numbers, tuple(spans))


def int32(numbers: Sequence[int]) -> IntArray:
    """As numpy's; of an array, which must not grow any more, without a copy."""
    return np.frombuffer(numbers, dtype=np.int32) if isinstance(numbers, array) else np.array(numbers, dtype=np.int32)


def _append(numbers: "array[int]", more: Sequence[int]) -> None:
    if isinstance(more, array):
        numbers.frombytes(more.tobytes())  # token and block ids are unsigned, and far below 2**31
    else:
        numbers.extend(more)

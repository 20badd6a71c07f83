"""A step's chunks as flat int32 arrays, with little Python per request: a hit waits for this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from anaphora.engine.input_batch import Chunk
from anaphora.models.batch import SequenceSpan
from anaphora.types import RequestId

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


def flatten(chunks: Sequence[Chunk], block_size: int, tables: "BlockTables") -> FlatBatch:
    """The chunks one after another; rows of logits in their order."""
    num_tokens = sum(len(chunk.token_ids) for chunk in chunks)
    token_ids, positions, slots = np.empty((3, num_tokens), dtype=np.int32)
    rows: list[int] = []
    spans = []
    row = 0
    for chunk in chunks:
        table, length = tables.array(chunk.request_id, chunk.block_table), len(chunk.token_ids)
        stop = row + length
        if length == 1:
            token_ids[row], positions[row] = chunk.token_ids[0], chunk.start
            slots[row] = table[chunk.start // block_size] * block_size + chunk.start % block_size
        else:
            token_ids[row:stop] = chunk.token_ids
            at = np.arange(chunk.start, chunk.stop, dtype=np.int32)
            positions[row:stop] = at
            slots[row:stop] = table[at // block_size] * block_size + at % block_size
        wanted = chunk.logits_positions
        rows += range(row + wanted.start - chunk.start, row + wanted.stop - chunk.start)
        spans.append(SequenceSpan(row, length, chunk.stop, cast(Any, table)))
        row = stop
    return FlatBatch(token_ids, positions, slots, np.array(rows, dtype=np.int32), tuple(spans))


class BlockTables:
    """Block tables as arrays. A running request's table grows by a block now and then, and its last block may have been
    a spare one: only these are converted."""

    def __init__(self, max_requests: int) -> None:
        """As many as ``max_requests`` are kept; of more, those made first are forgotten."""
        self._max_requests = max_requests
        self._kept: dict[RequestId, tuple[Sequence[int], IntArray]] = {}

    def array(self, request_id: RequestId, ids: Sequence[int]) -> IntArray:
        """The table ``ids`` of a request."""
        kept = self._kept.get(request_id)
        if kept is not None and kept[0] is ids:
            return kept[1]
        known = 0
        if kept is not None and kept[0][:-1] == ids[: len(kept[0]) - 1]:
            known = len(kept[0]) - 1
        array = np.empty(len(ids), dtype=np.int32)
        if kept is not None:
            array[:known] = kept[1][:known]
        array[known:] = ids[known:]
        self._kept[request_id] = ids, array
        if len(self._kept) > self._max_requests:
            del self._kept[next(iter(self._kept))]
        return array

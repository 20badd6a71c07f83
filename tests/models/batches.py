"""Forward batches for tests, from what each request has and where its blocks lie."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from anaphora.models.batch import ForwardBatch, SequenceSpan

BLOCK_SIZE = 4


@dataclass(frozen=True)
class Piece:
    """Tokens ``[start, end)`` of a request, to be computed in one pass. ``token_ids`` are all of the request's."""

    token_ids: Sequence[int]
    start: int
    end: int
    block_table: Sequence[int]


def forward_batch(pieces: Sequence[Piece], rows: Sequence[int] | None = None) -> ForwardBatch:
    """One flat batch of the pieces; logits of ``rows``, by default of all rows."""
    tokens: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    spans = []
    for piece in pieces:
        spans.append(SequenceSpan(len(tokens), piece.end - piece.start, piece.end, piece.block_table))
        tokens += piece.token_ids[piece.start : piece.end]
        positions += range(piece.start, piece.end)
        slots += [slot(piece.block_table, position) for position in range(piece.start, piece.end)]
    rows = range(len(tokens)) if rows is None else rows
    return ForwardBatch(_tensor(tokens), _tensor(positions), _tensor(slots), tuple(spans), _tensor(rows))


def slot(block_table: Sequence[int], position: int) -> int:
    """Where the token at ``position`` lies."""
    return block_table[position // BLOCK_SIZE] * BLOCK_SIZE + position % BLOCK_SIZE


def poison(storage: torch.Tensor) -> None:
    """What memory that nobody wrote may hold."""
    storage.fill_(torch.nan)


def _tensor(values: Sequence[int]) -> torch.Tensor:
    return torch.tensor(list(values), dtype=torch.int64)

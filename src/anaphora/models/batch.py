"""What one forward pass is given: a flat batch of tokens and where each request's part of it lies."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch


class SequenceSpan(NamedTuple):
    """One request's part of a step.

    Rows ``[query_start, query_start + query_len)`` of the flat batch are its tokens at positions
    ``[kv_len - query_len, kv_len)``. After their keys and values are written, ``kv_len`` tokens lie in the blocks of
    ``block_table``, in order: token ``t`` in block ``block_table[t // block_size]`` at offset ``t % block_size``.
    """

    query_start: int
    query_len: int
    kv_len: int
    block_table: Sequence[int]


@dataclass(frozen=True, slots=True)
class ForwardBatch:
    """A step's tokens, flat. ``T`` tokens in all, ``R`` rows whose logits are wanted.

    Within one pass every layer writes all new keys and values before any query reads: so a request may attend to blocks
    that another request of the same batch is computing.
    """

    token_ids: torch.Tensor
    """``[T]`` int64."""
    positions: torch.Tensor
    """``[T]`` int64."""
    slot_mapping: torch.Tensor
    """``[T]`` int64: ``block_id * block_size + offset``, where the token's key and value are written."""
    spans: tuple[SequenceSpan, ...]
    logits_rows: torch.Tensor
    """``[R]`` int64, rows of the flat batch. May be empty: then no output head is run."""

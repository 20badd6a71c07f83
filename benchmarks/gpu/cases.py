"""Attention steps to check and to time: who has how many new tokens over how many, and which blocks are shared."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from anaphora.models.batch import SequenceSpan

BLOCK_SIZE = 16


@dataclass(frozen=True, slots=True)
class Heads:
    """Sizes of a model's attention."""

    num_heads: int = 28
    num_kv_heads: int = 4
    dim: int = 128
    dtype: torch.dtype = torch.bfloat16

    @property
    def scale(self) -> float:
        """Of the scores."""
        return 1 / math.sqrt(self.dim)


@dataclass(frozen=True, slots=True)
class Case:
    """A step. ``requests``: (new tokens, tokens in all); the first ``shared`` tokens of all of them are the same."""

    name: str
    requests: tuple[tuple[int, int], ...]
    shared: int = 0

    def floor_us(self, heads: Heads, bandwidth: float, flops: float) -> float:
        """Microseconds a layer, whichever is longer: reading keys and values once, or the products."""
        own = sum(kv_len - self.shared for _, kv_len in self.requests) + self.shared
        read = own * 2 * heads.num_kv_heads * heads.dim * 2 / bandwidth
        scores = sum(q * kv_len - q * (q - 1) // 2 for q, kv_len in self.requests)
        return 1e6 * max(read, 4 * scores * heads.num_heads * heads.dim / flops)


CASES = (
    Case("1 new over 4k", ((1, 4096),)),
    Case("16 new over 4k", ((16, 4096),)),
    Case("64 new over 4k", ((64, 4096),)),
    Case("256 new over 4k", ((256, 4096),)),
    Case("1 new over 32k", ((1, 32768),)),
    Case("16 new over 32k", ((16, 32768),)),
    Case("64 decodes over 4k each", tuple((1, 4096 + 7 * index % 64) for index in range(64))),
    Case("64 decodes, 4k shared", tuple((1, 4097 + 2 * index) for index in range(64)), 4096),
    Case("64 decodes, 30k shared", tuple((1, 30001 + 2 * index) for index in range(64)), 30000),
    Case("16 new over 4k and 32 decodes over 1k", ((16, 4096), *((1, 1000 + index) for index in range(32)))),
)
MIXED = Case(
    "mixed",
    (
        (1, 1041),
        (17, 1057),
        (300, 1424),
        (1, 1040),
        (5, 1500),
        (1, 1025),
        (40, 1072),
        (2, 4099),
        (1, 30000),
        (16, 1040),
    ),
    1024,
)
"""For checking: lengths around borders of blocks, short and long, decodes and extends, with a shared beginning."""


def spans_of(case: Case, generator: np.random.Generator) -> tuple[list[SequenceSpan], int]:
    """Block tables at random, and how many blocks there are. A step's shared blocks are whole ones."""
    shared = case.shared // BLOCK_SIZE
    sizes = [-(-kv_len // BLOCK_SIZE) - shared for _, kv_len in case.requests]
    num_blocks = shared + sum(sizes) + 3
    blocks = generator.permutation(num_blocks).astype(np.int32)
    head, rest = blocks[:shared], blocks[shared:]
    spans: list[SequenceSpan] = []
    start = 0
    for (query_len, kv_len), size in zip(case.requests, sizes, strict=True):
        table = np.concatenate([head, rest[:size]])
        spans.append(SequenceSpan(start, query_len, kv_len, table))  # type: ignore[arg-type]
        rest, start = rest[size:], start + query_len
    return spans, num_blocks


def random_cache(spans: Sequence[SequenceSpan], num_blocks: int, heads: Heads, num_layers: int) -> torch.Tensor:
    """``[num_layers, 2, num_kv_heads, num_slots, dim]``: random where a request's token lies, NaN elsewhere."""
    shape = (num_layers, 2, heads.num_kv_heads, num_blocks * BLOCK_SIZE, heads.dim)
    cache = torch.empty(shape, dtype=heads.dtype, device="cuda")
    for layer in cache:
        layer.normal_()
    written = torch.zeros(num_blocks * BLOCK_SIZE, dtype=torch.bool, device="cuda")
    for span in spans:
        written[slots_of(span)] = True
    cache[:, :, :, ~written] = math.nan
    return cache


def slots_of(span: SequenceSpan) -> torch.Tensor:
    """Where the request's tokens lie, in order."""
    token = np.arange(span.kv_len)
    slots = np.asarray(span.block_table)[token // BLOCK_SIZE].astype(np.int64) * BLOCK_SIZE + token % BLOCK_SIZE
    return torch.from_numpy(slots).cuda()


def reference(queries: torch.Tensor, span: SequenceSpan, layer: torch.Tensor, heads: Heads) -> torch.Tensor:
    """Float64 attention of one request, head by head. ``queries`` ``[Q, num_heads, dim]``."""
    keys, values = layer[:, :, slots_of(span)].double()
    position = torch.arange(span.kv_len - span.query_len, span.kv_len, device="cuda").unsqueeze(1)
    hidden = torch.arange(span.kv_len, device="cuda") > position
    group = heads.num_heads // heads.num_kv_heads
    mixed = []
    for head in range(heads.num_heads):
        scores = queries[:, head].double() @ keys[head // group].T * heads.scale
        mixed.append(scores.masked_fill_(hidden, -math.inf).softmax(-1) @ values[head // group])
    return torch.stack(mixed, 1)

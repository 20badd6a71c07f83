"""Prompts as the cache core takes them, whether a trace knows their tokens or only the identity of their blocks."""

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from anaphora.errors import TraceError
from anaphora.kvcache.token_blocks import TOKEN_BYTES, TokenBlocks, pack
from anaphora.traces.request import HashedPrompt, TokenPrompt, Trace
from anaphora.types import Namespace

DEFAULT_BLOCK_SIZE = 16


class _ReadyBlocks(TokenBlocks):
    """Blocks that are packed already, ``width`` bytes each."""

    __slots__ = ()

    def __init__(self, packed: bytes, width: int, block_size: int, tail: "array[int]") -> None:
        self.packed = bytearray(packed)
        self.width = width
        self.block_size = block_size
        self.num_full = len(packed) // width
        self._tail = tail
        self._whole = None


class _HashedBlocks(_ReadyBlocks):
    """Four bytes stand for all tokens of a block. The core compares blocks as bytes and need not know.

    Where prompts part is known to the block, as in the trace. Three bytes tell the tails of :meth:`to_bytes` apart by
    their lengths, in that order, and before nearly all blocks; they are no unit: nothing that prompts have in common.
    """

    __slots__ = ()

    @property
    def tokens_per_unit(self) -> int:
        return self.block_size

    def to_bytes(self) -> bytes:
        if self._whole is None:
            num_tail = len(self._tail) % 2**16
            self._whole = bytes(self.packed) + (num_tail.to_bytes(3, "big") if num_tail else b"")
        return self._whole


class PromptBlocks(NamedTuple):
    """A prompt cut into ``ceil(num_tokens / block_size)`` blocks, the last one perhaps partial.

    ``packed``: its tokens, or four bytes a block that stand for them (``is_hashed``).
    """

    namespace: Namespace
    packed: bytes
    num_tokens: int
    block_size: int
    is_hashed: bool
    arrival_s: float | None
    num_output_tokens: int | None
    """Length of the answer, where the trace tells it: an eviction policy may learn from it."""
    answer: Sequence[int] | None = None
    """The answer's tokens, where the trace tells them: what they fill is cached too."""
    lookup: bool = True
    """Whether the engine may read the cache for it."""

    @property
    def width(self) -> int:
        """Bytes of a full block in ``packed``."""
        return TOKEN_BYTES if self.is_hashed else self.block_size * TOKEN_BYTES

    @property
    def blocks(self) -> list[bytes]:
        """The blocks one by one."""
        width, packed = self.width, self.packed
        return [packed[start : start + width] for start in range(0, len(packed), width)]

    @property
    def num_blocks(self) -> int:
        """Blocks, a partial one like the others."""
        return -(-self.num_tokens // self.block_size)

    @property
    def num_full_blocks(self) -> int:
        """Blocks that the engine can share."""
        return self.num_tokens // self.block_size

    @property
    def num_full_computed_blocks(self) -> int:
        """Blocks that it leaves in an engine's cache: of the prompt, and of a known answer but for its last token."""
        num_answer = len(self.answer) - 1 if self.answer and not self.is_hashed else 0
        return (self.num_tokens + num_answer) // self.block_size

    @property
    def num_reusable_blocks(self) -> int:
        """Blocks that the engine can take from the cache: the last token must be computed."""
        return (self.num_tokens - 1) // self.block_size

    def beginning(self, num_blocks: int) -> bytes:
        """The first ``num_blocks`` blocks, or as many as there are."""
        return self.packed[: num_blocks * self.width]

    def for_engine(self, max_blocks: int | None = None) -> TokenBlocks:
        """The prompt as the engine knows it, or no more than its first blocks."""
        blocks, width = _HashedBlocks if self.is_hashed else _ReadyBlocks, self.width
        num_full, num_tail = divmod(self.num_tokens, self.block_size)
        if max_blocks is not None and max_blocks < num_full + bool(num_tail):
            return blocks(self.packed[: max_blocks * width], width, self.block_size, array("I"))
        tail = _NO_TOKEN * num_tail if self.is_hashed else array("I", self.packed[num_full * width :])
        return blocks(self.packed[: num_full * width], width, self.block_size, tail)

    def token_ids(self) -> "array[int]":
        """The prompt's tokens. Of a hashed block one number stands for each: equal blocks have equal tokens."""
        if not self.is_hashed:
            return array("I", self.packed)
        tokens = b"".join([block * self.block_size for block in self.blocks])
        return array("I", tokens[: self.num_tokens * TOKEN_BYTES])

    def for_trace_rule(self) -> TokenBlocks:
        """The prompt in units of blocks, a partial one like the others; one more unit lets a lookup match them all."""
        padding = bytes([_PADDING]) * (-len(self.packed) % self.width)
        return _ReadyBlocks(self.packed + padding, self.width, 1, _NO_TOKEN[:])

    def computed_blocks(self) -> list[bytes]:
        """What a request leaves in an engine's cache, then a partial block: of the prompt, and of a known answer."""
        if not self.answer or self.is_hashed:
            return self.blocks
        tokens = pack([*self.token_ids(), *self.answer[:-1]]).tobytes()
        return [tokens[start : start + self.width] for start in range(0, len(tokens), self.width)]

    def num_tokens_in(self, num_blocks: int) -> int:
        """Tokens in the first ``num_blocks`` blocks."""
        return min(num_blocks * self.block_size, self.num_tokens)


_NO_TOKEN = array("I", [0])
"""In place of each token that is not known."""
_PADDING = 255
"""Fills partial blocks up, as far as they count as blocks. No vocabulary has a token 2**32 - 1."""


def own_block_size(trace: Trace) -> int | None:
    """Of the trace's block ids, or of the server that wrote it; ``None`` if it has none."""
    return trace.block_size or (trace.served_by.block_size if trace.served_by else None)


def cut_into_blocks(trace: Trace, block_size: int | None = None) -> list[PromptBlocks]:
    """Every prompt of a trace in blocks of ``block_size`` tokens; by default the trace's own, or 16.

    Raises:
        TraceError: the trace's block ids say nothing about blocks of that size, or a prompt is still text.
    """
    size = block_size or own_block_size(trace) or DEFAULT_BLOCK_SIZE
    merged = 1 if trace.block_size is None else size // trace.block_size
    if trace.block_size is not None and merged * trace.block_size != size:
        raise TraceError(
            f"block ids of {trace.path.name} stand for {trace.block_size} tokens: --block-size must be a multiple of "
            f"that, got {size}"
        )
    prompts: list[PromptBlocks] = []
    for request in trace.requests:
        match request.prompt:
            case HashedPrompt(block_ids, num_tokens):
                packed = pack(block_ids if merged == 1 else _ends_of_groups(block_ids, merged)).tobytes()
                is_hashed = True
            case TokenPrompt(token_ids):
                packed, num_tokens, is_hashed = pack(token_ids).tobytes(), len(token_ids), False
            case _:
                raise TraceError(f"prompts of {trace.path.name} are texts: name the model whose tokens count (--model)")
        prompts.append(
            PromptBlocks(
                request.namespace,
                packed,
                num_tokens,
                size,
                is_hashed,
                request.arrival_s,
                request.num_output_tokens,
                request.output_token_ids,
                request.lookup,
            )
        )
    return prompts


def _ends_of_groups(block_ids: Sequence[int], merged: int) -> Sequence[int]:
    """An id stands for all that is before it: the last one of a group stands for the group."""
    ends = list(block_ids[merged - 1 :: merged])
    return [*ends, block_ids[-1]] if len(block_ids) % merged else ends

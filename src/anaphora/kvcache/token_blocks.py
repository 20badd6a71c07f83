"""A request's tokens, packed block by block into bytes: what the prefix index compares."""

from array import array
from collections.abc import Sequence

from anaphora.errors import RequestError

TOKEN_BYTES = 4
"""A token id is an unsigned 32-bit number in native byte order."""


def pack(token_ids: Sequence[int]) -> "array[int]":
    """Token ids as a compact array.

    Raises:
        RequestError: something in it is no token id.
    """
    try:
        return array("I", token_ids)
    except (OverflowError, TypeError) as error:
        raise RequestError(f"token ids must be integers from 0 to 4294967295: {error}", param="prompt") from error


def unpack(packed: bytes) -> tuple[int, ...]:
    """The token ids that were packed."""
    return tuple(array("I", packed))


class TokenBlocks:
    """Known tokens of one request: full blocks as bytes, each packed once, and an unfinished tail.

    A ``bytes`` object keeps its hash, so looking up or storing the same block a second time costs next to nothing.
    """

    __slots__ = ("_tail", "block_size", "full")

    def __init__(self, token_ids: Sequence[int], block_size: int) -> None:
        packed = pack(token_ids).tobytes()
        width = block_size * TOKEN_BYTES
        end = len(packed) // width * width
        self.block_size = block_size
        self.full = [packed[start : start + width] for start in range(0, end, width)]
        """One entry per full block: its ``block_size`` tokens."""
        self._tail = array("I", packed[end:])

    @property
    def num_tokens(self) -> int:
        """Tokens in full blocks and tail together."""
        return len(self.full) * self.block_size + len(self._tail)

    def append(self, token_id: int) -> None:
        """Add one token; completes a block every ``block_size`` tokens."""
        self._tail.append(token_id)
        if len(self._tail) == self.block_size:
            self.full.append(self._tail.tobytes())
            del self._tail[:]

    def to_bytes(self) -> bytes:
        """All tokens in one piece."""
        return b"".join((*self.full, self._tail.tobytes()))

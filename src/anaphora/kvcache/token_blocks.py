"""A request's tokens, packed into bytes: what the prefix index compares."""

from array import array
from collections.abc import Sequence

from anaphora.errors import RequestError

TOKEN_BYTES = 4
"""A token id is an unsigned 32-bit number in native byte order."""


def pack(token_ids: Sequence[int] | bytes) -> "array[int]":
    """Token ids as a compact array; one that is so already stays as it is. ``bytes`` are packed ids.

    Raises:
        RequestError: something in it is no token id.
    """
    if isinstance(token_ids, array) and token_ids.typecode == "I":
        return token_ids
    try:
        return array("I", token_ids)
    except (OverflowError, TypeError, ValueError) as error:
        raise RequestError(f"token ids must be integers from 0 to 4294967295: {error}", param="prompt") from error


def unpack(packed: bytes) -> tuple[int, ...]:
    """The token ids that were packed."""
    return tuple(array("I", packed))


def units_of(packed: bytes, start: int, stop: int) -> bytes:
    """Some of the units of four bytes, as many as are there as a whole."""
    return packed[start * TOKEN_BYTES : min(stop, len(packed) // TOKEN_BYTES) * TOKEN_BYTES]


def num_common_units(a: bytes | bytearray, b: bytes | memoryview, width: int) -> int:
    """Units of ``width`` bytes that two sequences begin with in common. Bytes are compared in bulk, and not copied."""
    view = memoryview(b)
    low, high = 0, min(len(a), len(view)) // width * width
    if a.startswith(view[:high]):
        return high // width
    while high - low > _AT_ONCE:  # the first `low` bytes are equal; the first `high` are not
        middle = (low + high) // 2
        if a.startswith(view[low:middle], low):
            low = middle
        else:
            high = middle
    differing = int.from_bytes(a[low:high], "little") ^ int.from_bytes(view[low:high], "little")
    lowest_bit = (differing & -differing).bit_length() - 1
    return (low + lowest_bit // 8) // width


_AT_ONCE = 512
"""So many bytes are compared as one number: several bisections would take longer."""


class TokenBlocks:
    """Known tokens of one request: its full blocks in one piece, ``width`` bytes each, and an unfinished tail."""

    __slots__ = ("_tail", "_whole", "block_size", "num_full", "packed", "width")

    def __init__(self, token_ids: Sequence[int] | bytes, block_size: int) -> None:
        ids = pack(token_ids)
        end = len(ids) // block_size * block_size
        self.block_size = block_size
        self.width = block_size * TOKEN_BYTES
        self.packed = bytearray(memoryview(ids)[:end].cast("B") if end else b"")
        """The full blocks."""
        self.num_full = end // block_size
        """How many."""
        self._tail = ids[end:]
        self._whole: bytes | None = None

    @property
    def tokens_per_unit(self) -> int:
        """Tokens that each four bytes stand for."""
        return 1

    @property
    def num_tokens(self) -> int:
        """Tokens in full blocks and tail together."""
        return self.num_full * self.block_size + len(self._tail)

    @property
    def full(self) -> list[bytes]:
        """The full blocks one by one."""
        return [self.block(position) for position in range(self.num_full)]

    def block(self, position: int) -> bytes:
        """One full block."""
        start = position * self.width
        return bytes(self.packed[start : start + self.width])

    def run(self, start: int, stop: int) -> bytearray:
        """The full blocks from ``start`` to before ``stop``, in one piece."""
        return self.packed[start * self.width : stop * self.width]

    def append(self, token_id: int) -> None:
        """Add one token; completes a block every ``block_size`` tokens."""
        self._whole = None
        self._tail.append(token_id)
        if len(self._tail) == self.block_size:
            self.packed += self._tail.tobytes()
            self.num_full += 1
            del self._tail[:]

    def extend(self, token_ids: Sequence[int]) -> None:
        """Add tokens."""
        self._whole = None
        self._tail.extend(token_ids)
        end = len(self._tail) // self.block_size * self.block_size
        if end:
            self.packed += self._tail[:end].tobytes()
            self.num_full += end // self.block_size
            del self._tail[:end]

    def to_bytes(self) -> bytes:
        """All tokens in one piece; made once, as long as no token is added."""
        if self._whole is None:
            self._whole = b"".join((self.packed, self._tail))
        return self._whole

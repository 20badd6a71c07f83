"""Runs of blocks: the nodes of a radix tree that branches at block borders."""

from typing import TYPE_CHECKING, Any, Self, TypeVar

from anaphora.kvcache.token_blocks import TokenBlocks, num_common_units
from anaphora.types import BlockKey

if TYPE_CHECKING:
    from array import array

Buffer = TypeVar("Buffer", bytearray, "array[int]", list[BlockKey])

_NO_CHILDREN: dict[bytes, Any] = {}
"""Of all leaves, and never written to: most runs are leaves, and an empty dictionary of its own takes 64 bytes."""


class Run:
    """Blocks that follow one another: the path from the root to a run's end spells a prefix.

    ``tokens``: ``width`` bytes a block, at least one block; the root alone has none. ``children``: by the tokens of
    their first block, ``head``. No two of them begin with the same block, so each block-aligned prefix has one place.

    Whoever refers to a run refers to its *end*. A run that is cut in two stays what its lower part was, and one that
    joins its parent takes that in: the end is where it was.
    """

    __slots__ = ("children", "head", "num_blocks", "parent", "tokens", "width")

    def __init__(self, parent: Self | None, tokens: bytearray, width: int) -> None:
        self.parent = parent
        self.tokens = tokens
        self.width = width
        self.num_blocks = len(tokens) // width
        self.head = bytes(tokens[:width])
        self.children: dict[bytes, Self] = _NO_CHILDREN
        if parent is not None:
            parent._adopt(self)

    def child(self, blocks: TokenBlocks, position: int) -> Self | None:
        """The run that goes on with the block at ``position``."""
        return self.children.get(blocks.block(position))

    def num_common(self, packed: bytearray, start: int, stop: int) -> int:
        """How many of the run's blocks ``packed`` has from byte ``start`` on, before ``stop``."""
        return num_common_units(self.tokens, memoryview(packed)[start:stop], self.width)

    def cut(self, upper: Self, num_blocks: int) -> None:
        """Leave the first ``num_blocks`` blocks to ``upper``, a new run between this one and its parent."""
        width = self.width
        upper.tokens, self.tokens = divide(self.tokens, num_blocks * width)
        upper.num_blocks, self.num_blocks = num_blocks, self.num_blocks - num_blocks
        upper.head, self.head = self.head, bytes(self.tokens[:width])
        upper.children = {self.head: self}
        self.parent = upper
        assert upper.parent is not None
        upper.parent.children[upper.head] = upper

    def take_in(self, parent: Self) -> None:
        """Take the parent's blocks in front of the own ones and its place in the tree. It has no other child."""
        assert self.parent is parent
        assert len(parent.children) == 1, parent.children
        parent.tokens += self.tokens
        self.tokens, self.head = parent.tokens, parent.head
        self.num_blocks += parent.num_blocks
        self.parent = parent.parent
        assert self.parent is not None
        self.parent.children[self.head] = self

    def shift(self, child: Self, num_blocks: int) -> None:
        """Move the last ``num_blocks`` blocks, not all, to the front of ``child``, the only one."""
        assert self.children == {child.head: child}, self.children
        assert 0 < num_blocks < self.num_blocks, (num_blocks, self.num_blocks)
        self.tokens, moved = divide(self.tokens, len(self.tokens) - num_blocks * self.width)
        moved += child.tokens
        child.tokens, child.head = moved, bytes(moved[: self.width])
        self.num_blocks -= num_blocks
        child.num_blocks += num_blocks
        self.children = {child.head: child}

    def shorten(self, num_blocks: int) -> None:
        """Lose the last ``num_blocks`` blocks, not all. Nothing comes after them."""
        assert not self.children, self.children
        assert 0 < num_blocks < self.num_blocks, (num_blocks, self.num_blocks)
        del self.tokens[-num_blocks * self.width :]
        self.num_blocks -= num_blocks

    def remove(self) -> None:
        """Leave the tree."""
        assert not self.children, self.children
        parent = self.parent
        assert parent is not None
        del parent.children[self.head]
        if not parent.children:
            parent.children = _NO_CHILDREN

    def _adopt(self, child: Self) -> None:
        if self.children:
            self.children[child.head] = child
        else:
            self.children = {child.head: child}


def divide(buffer: Buffer, at: int) -> tuple[Buffer, Buffer]:
    """The part before ``at`` and the rest. The longer one stays where it is: to cut a little off costs little."""
    if 2 * at < len(buffer):
        upper = buffer[:at]
        del buffer[:at]
        return upper, buffer
    lower = buffer[at:]
    del buffer[at:]
    return buffer, lower

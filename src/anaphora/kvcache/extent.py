"""What the prefix index is made of: runs of blocks that went through the same."""

from array import array
from typing import TYPE_CHECKING, Self

from anaphora.kvcache.run import Run, divide
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.types import BlockKey, Namespace, RequestId

if TYPE_CHECKING:
    from anaphora.kvcache.census import CensusRun
    from anaphora.kvcache.eviction.visit import Visit


_NO_IDS, _NO_NUMBERS = array("I"), array("Q")
"""Of all extents without blocks, and never written to."""


class Extent(Run):
    """A run of blocks of one namespace that share one history, and so one entry for all of them.

    Two prompts that share three blocks; the second one is running, and of the first, two blocks were evicted::

                                   +- [d e] cached, ref_count 0 --- [f g] evicted
        root --- [a b c] cached ---|
                 ref_count 1       +- [x y z] cached, ref_count 1

    Requests take, leave and lose blocks in order: found from the first on, given up and evicted from the last on. So a
    history differs only from some block on, and the extent is cut there: where a match ends inside it, where prompts
    part, where eviction or forgetting has eaten its tail. What a request adds to its own last extent joins it again.

    ==========  =============  =========
    state       ``block_ids``  ``owner``
    ==========  =============  =========
    pending     one a block    the request that computes them in step ``step``
    cached      one a block    ``None``
    evicted     empty          ``None``   (remembered for the ledger; ``evicted_at`` is set)
    ==========  =============  =========

    Numbers that tell the order of events are those of the *first* block: the last one is given up (``released_at``)
    and evicted (``evicted_at``) first, each before it has the next number. ``stored_at`` has one number a block.
    """

    __slots__ = (
        "block_ids",
        "census",
        "evicted_at",
        "keys",
        "namespace",
        "num_attached_children",
        "num_stores",
        "num_uses",
        "owner",
        "ref_count",
        "released_at",
        "step",
        "stored_at",
        "turn",
        "visit",
    )

    def __init__(self, namespace: Namespace, parent: Self | None, tokens: bytearray, width: int) -> None:
        super().__init__(parent, tokens, width)
        self.namespace = namespace
        self.block_ids: array[int] = _NO_IDS
        self.ref_count = 0
        """Block tables that mention the blocks, and pins."""
        self.owner: RequestId | None = None
        self.step: int | None = None
        self.evicted_at: int | None = None
        self.census: CensusRun | None = None
        """Where the census counts this prefix: cached extents have it, but for those of the index's main namespace."""
        self.keys: list[BlockKey] | None = None
        """A digest for each block, once somebody has listened."""
        self.num_attached_children = 0
        """Children that have blocks."""
        # What eviction policies want to know; an evicted extent keeps it as long as it is remembered.
        self.num_stores = 0
        """How often it was cached, counting from when it was first known."""
        self.num_uses = 0
        """Requests that found it since it is cached."""
        self.stored_at: array[int] = _NO_NUMBERS
        """The blocks' places in the order in which blocks were cached."""
        self.released_at = 0
        """Its place in the order in which blocks were given up by the last who held them; 0: never since cached."""
        self.turn = 0
        """How many requests, one continuing the other, led to it; 0 until the first of them has left."""
        self.visit: Visit | None = None
        """With which blocks it was given up; ``None`` while a request holds it or has come back for it."""

    @property
    def is_attached(self) -> bool:
        """Whether it has blocks."""
        return bool(self.block_ids)

    @property
    def is_cached_only(self) -> bool:
        """Whether it has blocks that nobody holds."""
        return bool(self.block_ids) and self.ref_count == 0

    def num_spelt(self, blocks: TokenBlocks, start: int, stop: int) -> int:
        """How many of its blocks ``blocks`` has from ``start`` on, before ``stop``."""
        return self.num_common(blocks.packed, start * self.width, stop * self.width)

    def is_usable(self, step: int | None) -> bool:
        """Whether its keys and values may be read by a request of ``step``: cached, or pending in that very step."""
        return bool(self.block_ids) and (self.owner is None or self.step == step)

    def attach(self, block_ids: "array[int]") -> None:
        """Give the extent its blocks."""
        assert not self.block_ids, self.block_ids
        assert len(block_ids) == self.num_blocks, (len(block_ids), self.num_blocks)
        assert self.parent is not None
        self.block_ids = block_ids
        self.parent.num_attached_children += 1

    def detach(self) -> None:
        """Take the extent's blocks away."""
        assert self.block_ids
        assert self.parent is not None
        self.block_ids, self.stored_at = _NO_IDS, _NO_NUMBERS
        self.owner = self.step = None
        self.ref_count = 0
        self.parent.num_attached_children -= 1

    def split(self, num_blocks: int) -> "Extent":
        """Cut the first ``num_blocks`` blocks off; returns them as a new extent, this one's parent."""
        assert 0 < num_blocks < self.num_blocks, (num_blocks, self.num_blocks)
        upper = Extent(self.namespace, None, bytearray(), self.width)
        upper.parent = self.parent
        self.cut(upper, num_blocks)
        if self.block_ids:
            upper.block_ids, self.block_ids = divide(self.block_ids, num_blocks)
            upper.stored_at, self.stored_at = divide(self.stored_at, num_blocks)
        if self.keys is not None:
            upper.keys, self.keys = divide(self.keys, num_blocks)
        upper.ref_count, upper.owner, upper.step = self.ref_count, self.owner, self.step
        upper.num_attached_children = int(self.is_attached)
        upper.num_stores, upper.num_uses = self.num_stores, self.num_uses
        upper.turn, upper.visit = self.turn, self.visit
        upper.released_at, upper.evicted_at = self.released_at, self.evicted_at
        self.released_at -= num_blocks if self.released_at else 0
        if self.evicted_at is not None:
            self.evicted_at -= num_blocks
        return upper

    def lose_to(self, child: Self, num_blocks: int) -> None:
        """Let go of the last ``num_blocks`` blocks, not all, which ``child``, the only one, has as its first."""
        self.shift(child, num_blocks)
        del self.block_ids[-num_blocks:], self.stored_at[-num_blocks:]
        if self.keys is not None and child.keys is not None:
            self.keys, moved = divide(self.keys, len(self.keys) - num_blocks)
            child.keys = moved + child.keys
        child.released_at = self.released_at - self.num_blocks

    def join(self) -> None:
        """Become one extent with the parent, of which :meth:`continues` is true."""
        parent = self.parent
        assert parent is not None
        self.take_in(parent)
        for mine, its in ((self.block_ids, parent.block_ids), (self.stored_at, parent.stored_at)):
            its.extend(mine)
        self.block_ids, self.stored_at = parent.block_ids, parent.stored_at
        if self.keys is not None and parent.keys is not None:
            self.keys = parent.keys + self.keys
        self.released_at, self.evicted_at = parent.released_at, parent.evicted_at

    def continues(self) -> bool:
        """Whether the parent's blocks and these have one history: held since they were cached, or evicted in a row."""
        parent = self.parent
        assert parent is not None
        if parent.parent is None or len(parent.children) > 1 or self.owner is not None or parent.owner is not None:
            return False
        if self.evicted_at is None:
            is_continued = parent.evicted_at is None and self.released_at == 0 == parent.released_at
        else:
            is_continued = parent.evicted_at == self.evicted_at + parent.num_blocks
        return is_continued and self.ref_count == parent.ref_count and self.is_like(parent)

    def is_like(self, other: "Extent") -> bool:
        """Whether eviction policies are to know the same of both."""
        return (
            self.num_stores == other.num_stores
            and self.num_uses == other.num_uses
            and self.turn == other.turn
            and self.visit is other.visit
        )

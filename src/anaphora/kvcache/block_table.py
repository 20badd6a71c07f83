"""The blocks of one running request, in the order of its tokens."""

from array import array
from typing import TYPE_CHECKING

from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.types import Namespace, RequestId

if TYPE_CHECKING:
    from anaphora.kvcache.extent import Extent


class BlockTable:
    """Token ``t`` lies in block ``ids[t // block_size]``.

    The first ``num_indexed`` blocks are cached, ``extent`` is where they end; the ``num_pending`` blocks after them
    that this step fills and nobody else has end with the extent ``pending``; the rest is the request's own::

        ids      | cached ... extent | pending ... | own, and the unfinished block |
                 0               num_indexed   + num_pending                 num_blocks
    """

    __slots__ = (
        "_ids",
        "_shown_ids",
        "extent",
        "namespace",
        "num_found",
        "num_indexed",
        "num_pending",
        "num_prompt_tokens",
        "pending",
        "request_id",
        "tokens",
        "turn",
    )

    def __init__(self, request_id: RequestId, namespace: Namespace, tokens: TokenBlocks) -> None:
        self.request_id = request_id
        self.namespace = namespace
        self.tokens = tokens
        self.num_indexed = 0
        self.extent: Extent | None = None
        self.num_pending = 0
        self.pending: Extent | None = None
        self.num_prompt_tokens = tokens.num_tokens
        """Tokens known at the admission: those that come later are the answer's."""
        self.num_found = 0
        """Blocks whose content was known when the request was admitted: cached, pending, or evicted and remembered."""
        self.turn = 1
        """One more than that of the last block found."""
        self._ids: array[int] = array("I")
        self._shown_ids: array[int] | None = None

    @property
    def num_blocks(self) -> int:
        return len(self._ids)

    @property
    def ids(self) -> "array[int]":
        """The block ids as they are now, in an array that stays so. One is made when the table has changed, not in each
        decode step, and it is a plain copy: there may be thousands of blocks, and somebody waits."""
        if self._shown_ids is None:
            self._shown_ids = self._ids[:]
        return self._shown_ids

    def ids_between(self, start: int, stop: int | None = None) -> "array[int]":
        """Some of the block ids."""
        return self._ids[start:stop]

    def extend(self, block_ids: "array[int]") -> None:
        """Append blocks."""
        self._ids += block_ids
        self._shown_ids = None

    def replace(self, start: int, block_ids: "array[int]") -> "array[int]":
        """Put other blocks with the same content in the place of some; returns those that were there."""
        places = slice(start, start + len(block_ids))
        replaced = self._ids[places]
        self._ids[places] = block_ids
        self._shown_ids = None
        return replaced

    def add_pending(self, extent: "Extent") -> None:
        """Blocks after the cached and pending ones are pending too."""
        self.pending = extent
        self.num_pending += extent.num_blocks

    def add_indexed(self, extent: "Extent") -> None:
        """Blocks after the cached ones are cached too."""
        self.extent = extent
        self.num_indexed += extent.num_blocks

    def extents(self) -> "list[Extent]":
        """The extents of the cached blocks, in the order of the tokens."""
        return _up_to(self.extent, self.num_indexed)

    def pending_extents(self) -> "list[Extent]":
        """The extents of the pending blocks."""
        return _up_to(self.pending, self.num_pending)

    def no_pending(self) -> None:
        """Nothing is pending any more."""
        self.pending = None
        self.num_pending = 0


def _up_to(extent: "Extent | None", num_blocks: int) -> "list[Extent]":
    """The extents of the last ``num_blocks`` blocks up to where one ends."""
    extents: list[Extent] = []
    while num_blocks:
        assert extent is not None
        extents.append(extent)
        num_blocks -= extent.num_blocks
        extent = extent.parent
    assert num_blocks == 0, num_blocks
    return extents[::-1]

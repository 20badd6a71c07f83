"""The answer to a lookup."""

from typing import NamedTuple

from anaphora.kvcache.extent import Extent
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.types import Namespace


class Match(NamedTuple):
    """What of ``tokens`` can be taken from the cache now. Holds nothing: it is valid until the cache changes.

    ``extents``: they begin with the reusable prefix. ``num_blocks``: its length. The last extent may go on;
    ``num_whole_blocks``: blocks of all the others.
    ``lookup``: whether the index was asked at all. ``step``: the step for which it was asked; blocks pending in it are
    usable.
    """

    namespace: Namespace
    tokens: TokenBlocks
    extents: tuple[Extent, ...]
    num_blocks: int
    num_whole_blocks: int
    lookup: bool
    step: int | None

    @property
    def num_cached_tokens(self) -> int:
        """Tokens that need not be computed: a multiple of the block size, less than the tokens known."""
        return self.num_blocks * self.tokens.block_size

    @property
    def num_unheld_blocks(self) -> int:
        """Blocks of the reusable prefix that nobody holds: once held, they cannot be evicted."""
        num_held = num_before = 0
        for extent in self.extents:
            if extent.ref_count:
                num_held += min(extent.num_blocks, self.num_blocks - num_before)
            num_before += extent.num_blocks
        return self.num_blocks - num_held

    @property
    def block_ids(self) -> list[int]:
        """The reusable prefix, block by block."""
        ids = [block_id for extent in self.extents for block_id in extent.block_ids]
        return ids[: self.num_blocks]

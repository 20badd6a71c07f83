"""The answer to a lookup."""

from dataclasses import dataclass

from anaphora.kvcache.prefix_index import PrefixNode
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.types import Namespace


@dataclass(frozen=True, slots=True)
class Match:
    """What of ``tokens`` can be taken from the cache now. Holds nothing: it is valid until the cache changes.

    ``nodes``: the reusable prefix, block by block. ``lookup``: whether the index was asked at all.
    ``step``: the step for which it was asked; blocks pending in it are usable.
    """

    namespace: Namespace
    tokens: TokenBlocks
    nodes: tuple[PrefixNode, ...]
    lookup: bool
    step: int | None

    @property
    def num_cached_tokens(self) -> int:
        """Tokens that need not be computed: a multiple of the block size, less than the tokens known."""
        return len(self.nodes) * self.tokens.block_size

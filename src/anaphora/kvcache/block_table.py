"""The blocks of one running request, in the order of its tokens."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from anaphora.kvcache.block import Block
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.types import BlockId, Namespace, RequestId

if TYPE_CHECKING:
    from anaphora.kvcache.prefix_index import PrefixNode


class BlockTable:
    """Token ``t`` lies in ``blocks[t // block_size]``.

    ``blocks[:num_indexed]`` are cached, ``node`` is the last one's node; the blocks after them that this step fills and
    nobody else has are ``pending``; the rest is the request's own::

        blocks   | cached ... node | pending ... | own, and the unfinished block |
                 0            num_indexed   + len(pending)               len(blocks)
    """

    __slots__ = (
        "_ids",
        "blocks",
        "borrowed_from",
        "namespace",
        "node",
        "num_found",
        "num_indexed",
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
        self.blocks: list[Block] = []
        self.num_indexed = 0
        self.node: PrefixNode | None = None
        self.pending: list[PrefixNode] = []
        self.num_prompt_tokens = tokens.num_tokens
        """Tokens known at the admission: those that come later are the answer's."""
        self.num_found = 0
        """Blocks whose content was known when the request was admitted: cached, pending, or evicted and remembered."""
        self.turn = 1
        """One more than that of the last block found."""
        self.borrowed_from: set[RequestId] = set()
        """Requests whose pending blocks this one has matched in this step."""
        self._ids: tuple[BlockId, ...] = ()

    @property
    def ids(self) -> tuple[BlockId, ...]:
        """The block ids. The tuple is made anew only when the table changes, not in each decode step."""
        return self._ids

    def extend(self, blocks: Sequence[Block]) -> None:
        """Append blocks."""
        self.blocks += blocks
        self._ids += tuple([block.block_id for block in blocks])

    def replace(self, position: int, block: Block) -> Block:
        """Put another block with the same content in a place; returns the one that was there."""
        replaced = self.blocks[position]
        self.blocks[position] = block
        self._ids = (*self._ids[:position], block.block_id, *self._ids[position + 1 :])
        return replaced

"""What a listener learns of the cache: blocks stored and removed, numbered. Nothing else leaves unasked."""

from collections.abc import Callable
from dataclasses import dataclass

from anaphora.kvcache.block_key import KeyKind, extend_key, namespace_key
from anaphora.kvcache.prefix_index import PrefixNode
from anaphora.types import BlockId, BlockKey


@dataclass(frozen=True, slots=True)
class BlockStored:
    """A prefix is cached. ``parent_key`` is that of the prefix without its last block; ``tokens`` are that block's."""

    sequence_number: int
    key: BlockKey
    parent_key: BlockKey
    block_id: BlockId
    tokens: bytes


@dataclass(frozen=True, slots=True)
class BlockRemoved:
    """A prefix is cached no longer."""

    sequence_number: int
    key: BlockKey
    block_id: BlockId


@dataclass(frozen=True, slots=True)
class CacheCleared:
    """Nothing is cached any more."""

    sequence_number: int


CacheEvent = BlockStored | BlockRemoved | CacheCleared
CacheListener = Callable[[CacheEvent], None]
"""Is called inside the change: it must be quick and must not call back."""


class EventPublisher:
    """Numbers events from 0 and keeps the keys. Exists only where somebody listens: nobody else pays for digests."""

    def __init__(self, listener: CacheListener, root_key: BlockKey) -> None:
        self._listener = listener
        self._root_key = root_key
        self._next_number = 0

    def stored(self, node: PrefixNode, block_id: BlockId) -> None:
        """The node is cached now, and so is its parent."""
        parent = node.parent
        assert parent is not None
        is_first = parent.parent is None
        parent_key = namespace_key(self._root_key, node.namespace) if is_first else parent.key
        assert parent_key is not None
        node.key = node.key or extend_key(parent_key, KeyKind.TOKENS, node.tokens)
        self._listener(BlockStored(self._number(), node.key, parent_key, block_id, node.tokens))

    def removed(self, node: PrefixNode, block_id: BlockId) -> None:
        """The node is cached no longer."""
        assert node.key is not None
        self._listener(BlockRemoved(self._number(), node.key, block_id))

    def cleared(self) -> None:
        """Everything went at once."""
        self._listener(CacheCleared(self._number()))

    def _number(self) -> int:
        self._next_number += 1
        return self._next_number - 1

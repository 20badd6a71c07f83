"""What a listener learns of the cache: blocks stored and removed, numbered. Nothing else leaves unasked."""

from collections.abc import Callable
from dataclasses import dataclass

from anaphora.kvcache.block_key import KeyKind, extend_key, namespace_key
from anaphora.kvcache.extent import Extent
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

    def stored(self, extent: Extent) -> None:
        """The extent's blocks are cached now, and so is its parent."""
        parent, width = extent.parent, extent.width
        assert parent is not None
        is_first = parent.parent is None
        key = namespace_key(self._root_key, extent.namespace) if is_first else _last_key(parent)
        known = extent.keys
        extent.keys = []
        for position, block_id in enumerate(extent.block_ids):
            tokens = bytes(extent.tokens[position * width : (position + 1) * width])
            parent_key, key = key, known[position] if known else extend_key(key, KeyKind.TOKENS, tokens)
            extent.keys.append(key)
            self._listener(BlockStored(self._number(), key, parent_key, BlockId(block_id), tokens))

    def removed(self, extent: Extent, num_blocks: int) -> None:
        """The last blocks of the extent are cached no longer; the very last went first."""
        assert extent.keys is not None
        for position in reversed(range(extent.num_blocks - num_blocks, extent.num_blocks)):
            event = BlockRemoved(self._number(), extent.keys[position], BlockId(extent.block_ids[position]))
            self._listener(event)

    def cleared(self) -> None:
        """Everything went at once."""
        self._listener(CacheCleared(self._number()))

    def _number(self) -> int:
        self._next_number += 1
        return self._next_number - 1


def _last_key(extent: Extent) -> BlockKey:
    assert extent.keys
    return extent.keys[-1]

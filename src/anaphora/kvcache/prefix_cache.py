"""The life of a prefix: pending, cached, evicted, forgotten. Every change of the index is made here."""

from anaphora.kvcache.block import Block
from anaphora.kvcache.block_key import ROOT_KEY
from anaphora.kvcache.census import CensusNode
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.events import CacheListener, EventPublisher
from anaphora.kvcache.memory import Memory
from anaphora.kvcache.prefix_index import PrefixIndex, PrefixNode
from anaphora.kvcache.stats import CacheStats
from anaphora.types import BlockKey, Namespace, RequestId


class PrefixCache:
    """The prefix index with all that hangs on it.

    ::

                     publish             store              evict                 the memory is full
        (no node) ------------> pending ------------> cached ------------> evicted ------------> (no node)
                  <------------         <------------------------------------
                     withdraw               publish (withdraw leads back)
    """

    def __init__(
        self,
        config: CacheConfig,
        stats: CacheStats,
        listener: CacheListener | None = None,
        root_key: BlockKey = ROOT_KEY,
    ) -> None:
        self.index = PrefixIndex()
        self.census = CensusNode()
        self.memory = Memory(config, self._forget)
        self._stats = stats
        self._events = None if listener is None else EventPublisher(listener, root_key)

    def publish(
        self,
        namespace: Namespace,
        parent: PrefixNode | None,
        tokens: bytes,
        block: Block,
        *,
        owner: RequestId,
        step: int | None,
    ) -> PrefixNode | None:
        """Make ``block`` the pending continuation of ``parent`` (``None``: of the root) by ``tokens``.

        ``None``, and no change, if another block is that already.
        """
        node = self.index.insert(namespace, parent, tokens)
        if node.block is not None:
            return None
        node.attach(block)
        node.owner = owner
        node.step = step
        return node

    def store(self, node: PrefixNode) -> None:
        """The node's block is computed: it is cached from now on."""
        block, parent = node.block, node.parent
        assert block is not None
        assert parent is not None
        node.owner = None
        node.step = None
        if node.evicted_at is not None:
            memory = self.memory.get(node.namespace)
            assert memory is not None
            memory.drop_eviction(node)
        node.census = (parent.census or self.census).enter(node.tokens)
        self._stats.num_stored_blocks += 1
        node.num_stores += 1
        node.num_uses = 0
        node.stored_at = self._stats.num_stored_blocks
        if self._events:
            self._events.stored(node, block.block_id)

    def withdraw(self, node: PrefixNode) -> None:
        """A pending node's block will not be computed."""
        assert node.owner is not None
        node.detach()
        if node.evicted_at is None:
            self.index.remove(node)

    def evict(self, block: Block) -> None:
        """A cached block is wanted for something else."""
        node = block.node
        assert node is not None
        assert node.owner is None
        self._uncache(node)
        self._stats.num_evicted_blocks += 1
        memory = self.memory.get(node.namespace)
        if memory is None:
            self.index.remove(node)
        else:
            memory.add_eviction(node)

    def clear(self) -> None:
        """Forget every node. The caller has taken care of the blocks."""
        self.index.clear()
        self.census = CensusNode()
        self.memory.clear()
        self._stats.num_resets += 1
        if self._events:
            self._events.cleared()

    def _uncache(self, node: PrefixNode) -> None:
        block = node.detach()
        assert node.census is not None
        node.census.leave()
        node.census = None
        if self._events:
            self._events.removed(node, block.block_id)

    def _forget(self, node: PrefixNode) -> None:
        if node.block is None:
            self.index.remove(node)

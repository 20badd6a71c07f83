"""The physical blocks: who is blank, who may be evicted, who is referenced how often."""

from collections.abc import Callable
from heapq import heappop, heappush

from anaphora.kvcache.block import Block
from anaphora.kvcache.eviction.policy import EvictionPolicy
from anaphora.kvcache.eviction.visit import Visit
from anaphora.kvcache.prefix_index import PrefixNode
from anaphora.types import BlockId


class BlockPool:
    """Owns every block. ``on_evict`` is called with a block that loses its content, to take it out of the index.

    The policy is shown leaves alone: what can be evicted without leaving a continuation behind that has no beginning.
    """

    def __init__(self, num_blocks: int, policy: EvictionPolicy, on_evict: Callable[[Block], None]) -> None:
        self.blocks = tuple(Block(BlockId(i)) for i in range(num_blocks))
        self.policy = policy
        self._on_evict = on_evict
        # A heap: the lowest ids are taken first, which keeps the blocks of a request together.
        self._blank = [block.block_id for block in self.blocks]
        self._num_cached_only = 0
        self._num_releases = 0

    @property
    def num_blank(self) -> int:
        """Blocks without content."""
        return len(self._blank)

    @property
    def num_cached_only(self) -> int:
        """Blocks that are cached and that no request holds: they can be evicted, children before their parents."""
        return self._num_cached_only

    @property
    def num_available(self) -> int:
        """Blocks that :meth:`take` can hand out."""
        return len(self._blank) + self._num_cached_only

    def take(self, num_blocks: int) -> list[Block]:
        """``num_blocks`` blank blocks in ascending order, each referenced once. Evicts if there are too few."""
        assert num_blocks <= self.num_available, (num_blocks, self.num_available)
        blank, blocks = self._blank, self.blocks
        num_blank = min(num_blocks, len(blank))
        ids = [heappop(blank) for _ in range(num_blank)]
        ids += [self._evict() for _ in range(num_blocks - num_blank)]
        ids.sort()
        taken = [blocks[i] for i in ids]
        for block in taken:
            block.ref_count = 1
        return taken

    def acquire(self, block: Block) -> None:
        """One more block table mentions a block that is in the index."""
        if block.ref_count == 0:
            node = block.node
            assert node is not None
            if node.num_attached_children == 0:
                self.policy.remove(node)
            self._num_cached_only -= 1
        block.ref_count += 1

    def release(self, block: Block, visit: Visit | None = None) -> None:
        """One block table less mentions the block; the last one leaves it cached, or blank if it is in no index.

        ``visit``: with which blocks the request leaves it.
        """
        assert block.ref_count > 0, block
        block.ref_count -= 1
        if block.ref_count:
            return
        node = block.node
        if node is None:
            heappush(self._blank, block.block_id)
            return
        self._num_cached_only += 1
        self._num_releases += 1
        node.released_at = self._num_releases
        if visit is not None:
            visit.add(node)
        if node.num_attached_children == 0:
            self.policy.add(node)

    def clear(self, policy: EvictionPolicy) -> None:
        """Make every block blank and begin with a new policy. No request holds any, and the index is let go."""
        assert self.num_available == len(self.blocks), "blocks are in use"
        for block in self.blocks:
            if block.node is not None:
                block.node.detach()
        self._blank = [block.block_id for block in self.blocks]
        self._num_cached_only = 0
        self.policy = policy

    def blank_ids(self) -> tuple[BlockId, ...]:
        """Ids of the blank blocks, ascending."""
        return tuple(sorted(self._blank))

    def eviction_order(self) -> tuple[BlockId, ...]:
        """Ids of the blocks that can be evicted, the next victim first, if nothing else happens meanwhile."""
        policy = self.policy.clone()
        num_left: dict[PrefixNode, int] = {}
        order: list[BlockId] = []
        while policy:
            node = policy.pop_victim()
            assert node.block is not None
            order.append(node.block.block_id)
            parent = node.parent
            if parent is not None:
                num_left[parent] = num_left.get(parent, parent.num_attached_children) - 1
                if num_left[parent] == 0 and _is_cached_only(parent):
                    policy.add(parent)
        return tuple(order)

    def _evict(self) -> BlockId:
        node = self.policy.pop_victim()
        block, parent = node.block, node.parent
        assert block is not None
        self._on_evict(block)
        self._num_cached_only -= 1
        if parent is not None and parent.num_attached_children == 0 and _is_cached_only(parent):
            self.policy.add(parent)
        return block.block_id


def _is_cached_only(node: PrefixNode) -> bool:
    return node.block is not None and node.block.ref_count == 0

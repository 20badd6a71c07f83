"""The physical blocks: who is blank, who may be evicted, who is referenced how often."""

from collections.abc import Callable
from heapq import heappop, heappush

from anaphora.kvcache.block import Block
from anaphora.kvcache.eviction import EvictionPolicy
from anaphora.types import BlockId


class BlockPool:
    """Owns every block. ``on_evict`` is called with a block that loses its content, to take it out of the index."""

    def __init__(self, num_blocks: int, policy: EvictionPolicy, on_evict: Callable[[Block], None]) -> None:
        self.blocks = tuple(Block(BlockId(i)) for i in range(num_blocks))
        self._on_evict = on_evict
        # A heap: the lowest ids are taken first, which keeps the blocks of a request together.
        self._blank = [block.block_id for block in self.blocks]
        self._policy = policy

    @property
    def num_blank(self) -> int:
        """Blocks without content."""
        return len(self._blank)

    @property
    def num_cached_only(self) -> int:
        """Blocks that are cached and that no request holds: they can be evicted."""
        return len(self._policy)

    @property
    def num_available(self) -> int:
        """Blocks that :meth:`take` can hand out."""
        return len(self._blank) + len(self._policy)

    def take(self, num_blocks: int) -> list[Block]:
        """``num_blocks`` blank blocks in ascending order, each referenced once. Evicts if there are too few."""
        assert num_blocks <= self.num_available, (num_blocks, self.num_available)
        blank, blocks = self._blank, self.blocks
        num_blank = min(num_blocks, len(blank))
        ids = [heappop(blank) for _ in range(num_blank)]
        for _ in range(num_blocks - num_blank):
            victim = self._policy.pop_victim()
            self._on_evict(blocks[victim])
            ids.append(victim)
        ids.sort()
        taken = [blocks[i] for i in ids]
        for block in taken:
            block.ref_count = 1
        return taken

    def acquire(self, block: Block) -> None:
        """One more block table mentions a block that is in the index."""
        if block.ref_count == 0:
            self._policy.remove(block.block_id)
        block.ref_count += 1

    def release(self, block: Block) -> None:
        """One block table less mentions the block; the last one leaves it cached, or blank if it is in no index."""
        assert block.ref_count > 0, block
        block.ref_count -= 1
        if block.ref_count == 0:
            if block.node is None:
                heappush(self._blank, block.block_id)
            else:
                self._policy.add(block.block_id)

    def discard(self, block: Block) -> None:
        """Make a cached block blank that no request holds and the index has let go."""
        assert block.ref_count == 0, block
        assert block.node is None, block
        self._policy.remove(block.block_id)
        heappush(self._blank, block.block_id)

    def blank_ids(self) -> tuple[BlockId, ...]:
        """Ids of the blank blocks, ascending."""
        return tuple(sorted(self._blank))

    def eviction_order(self) -> tuple[BlockId, ...]:
        """Ids of the blocks that can be evicted, the next victim first."""
        return tuple(self._policy)

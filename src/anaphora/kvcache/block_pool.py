"""The physical blocks: which are blank, which may be evicted, which are held."""

from array import array
from collections.abc import Callable

from anaphora.kvcache.blank_blocks import BlankBlocks
from anaphora.kvcache.eviction.policy import EvictionPolicy
from anaphora.kvcache.eviction.visit import Visit
from anaphora.kvcache.extent import Extent
from anaphora.types import BlockId


class BlockPool:
    """Every block is blank, in an extent of the index, or one request's own; the pool counts and hands out.

    ``on_evict`` takes the last blocks of an extent out of the index and returns what of it stays cached, if anything.

    The policy is shown leaves alone: what can be evicted without leaving a continuation behind that has no beginning.
    """

    def __init__(
        self, num_blocks: int, policy: EvictionPolicy, on_evict: Callable[[Extent, int], Extent | None]
    ) -> None:
        self.num_blocks = num_blocks
        self.policy = policy
        self._on_evict = on_evict
        self._blank = BlankBlocks(num_blocks)
        self._num_cached_only = 0
        self._num_releases = 0

    @property
    def num_blank(self) -> int:
        """Blocks without content."""
        return len(self._blank)

    @property
    def num_cached_only(self) -> int:
        """Blocks that are cached and that nobody holds: they can be evicted, children before their parents."""
        return self._num_cached_only

    @property
    def num_available(self) -> int:
        """Blocks that :meth:`take` can hand out."""
        return len(self._blank) + self._num_cached_only

    def take(self, num_blocks: int) -> "array[int]":
        """``num_blocks`` blank blocks in ascending order. Evicts if there are too few."""
        num_blank = len(self._blank)
        assert num_blocks <= num_blank + self._num_cached_only, (num_blocks, self.num_available)
        ids = self._blank.take(min(num_blocks, num_blank))
        if num_blank < num_blocks:
            while len(ids) < num_blocks:
                ids += self._evict(num_blocks - len(ids))
            ids = array("I", sorted(ids))
        return ids

    def put_back(self, block_ids: "array[int]") -> None:
        """Blocks that were one request's own are blank again."""
        self._blank.add(block_ids)

    def acquire(self, extent: Extent) -> None:
        """One more holds the blocks of an extent."""
        if extent.ref_count == 0:
            if extent.num_attached_children == 0:
                self.policy.remove(extent)
            self._num_cached_only -= extent.num_blocks
        extent.ref_count += 1

    def release(self, extent: Extent, visit: Visit | None = None) -> None:
        """One less holds the blocks of an extent; the last one leaves them cached, the first block as the latest.

        ``visit``: with which blocks the request leaves them.
        """
        assert extent.ref_count > 0, extent
        extent.ref_count -= 1
        if extent.ref_count:
            return
        num_blocks = extent.num_blocks
        self._num_cached_only += num_blocks
        self._num_releases += num_blocks
        extent.released_at = self._num_releases
        if visit is not None:
            visit.add(extent)
        if extent.num_attached_children == 0:
            self.policy.add(extent, num_blocks - 1)

    def clear(self, policy: EvictionPolicy) -> None:
        """Make every block blank and begin with a new policy. No request holds any, and the index is let go."""
        assert self.num_available == self.num_blocks, "blocks are in use"
        self._blank = BlankBlocks(self.num_blocks)
        self._num_cached_only = 0
        self.policy = policy

    def blank_ids(self) -> tuple[BlockId, ...]:
        """Ids of the blank blocks, ascending."""
        return tuple(map(BlockId, self._blank))

    def eviction_order(self) -> tuple[BlockId, ...]:
        """Ids of the blocks that can be evicted, the next victim first, if nothing else happens meanwhile."""
        policy = self.policy.clone()
        num_left: dict[Extent, int] = {}
        num_children: dict[Extent, int] = {}
        order: list[BlockId] = []
        while policy:
            extent, as_a_whole = policy.pop_victim()
            before = num_left.get(extent, extent.num_blocks)
            left = num_left[extent] = 0 if as_a_whole else before - 1
            order += map(BlockId, reversed(extent.block_ids[left:before]))
            parent = extent.parent
            assert parent is not None
            if left:
                policy.add(extent, left - 1)
                continue
            num_children[parent] = num_children.get(parent, parent.num_attached_children) - 1
            if num_children[parent] == 0 and parent.is_cached_only:
                policy.add(parent, parent.num_blocks - 1)
        return tuple(order)

    def _evict(self, limit: int) -> "array[int]":
        """Empty blocks from the end of the next victim, at most ``limit``."""
        extent, as_a_whole = self.policy.pop_victim()
        num_blocks = min(limit, extent.num_blocks) if as_a_whole else 1
        ids = extent.block_ids[-num_blocks:]
        parent = extent.parent
        assert parent is not None
        leaf = self._on_evict(extent, num_blocks) or parent
        self._num_cached_only -= num_blocks
        if leaf.num_attached_children == 0 and leaf.is_cached_only:
            self.policy.add(leaf, leaf.num_blocks - 1)
        return ids

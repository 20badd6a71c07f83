"""What is known of one physical block. Its keys and values are elsewhere; here it is a number with a state."""

from typing import TYPE_CHECKING

from anaphora.types import BlockId

if TYPE_CHECKING:
    from anaphora.kvcache.prefix_index import PrefixNode


class Block:
    """One block is in exactly one of three states.

    ============  =============  ============
    state         ``ref_count``  ``node``
    ============  =============  ============
    blank         0              ``None``
    cached only   0              its node
    referenced    at least 1     either
    ============  =============  ============
    """

    __slots__ = ("block_id", "node", "ref_count")

    def __init__(self, block_id: BlockId) -> None:
        self.block_id = block_id
        self.ref_count = 0
        """Block tables that mention the block."""
        self.node: PrefixNode | None = None
        """Its place in the prefix index, if it has one."""

    def __repr__(self) -> str:
        return f"Block({self.block_id}, ref_count={self.ref_count}, {'in index' if self.node else 'not in index'})"

"""What stands in the prefix index, as plain data for people."""

from dataclasses import dataclass
from itertools import islice

from anaphora.kvcache.extent import Extent
from anaphora.kvcache.prefix_index import PrefixIndex
from anaphora.kvcache.stats import CacheStats
from anaphora.kvcache.token_blocks import TOKEN_BYTES, unpack
from anaphora.types import Namespace

FIRST_TOKENS = 16
"""Tokens shown of each extent."""


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One extent. ``parent``: the number of the one it continues, or ``None``; parents come before their children."""

    number: int
    parent: int | None
    namespace: Namespace
    state: str
    """``pending``, ``cached`` or ``evicted``."""
    num_blocks: int
    num_tokens: int
    first_tokens: tuple[int, ...]
    num_holders: int
    """Block tables and pins that hold it."""
    num_hits: int
    """Requests that found it since it is cached."""
    age_blocks: int | None
    """Blocks stored since its first one was; ``None`` unless it is cached."""


def dump_tree(
    index: PrefixIndex,
    stats: CacheStats,
    block_size: int,
    namespace: Namespace | None = None,
    max_nodes: int | None = None,
) -> list[TreeNode]:
    """All extents, or those of one namespace; at most the first ``max_nodes``."""
    numbers: dict[Extent, int] = {}
    nodes: list[TreeNode] = []
    for extent in islice(index.extents(namespace), max_nodes):
        assert extent.parent is not None
        parent = numbers.get(extent.parent)
        numbers[extent] = len(nodes)
        nodes.append(_node(extent, len(nodes), parent, stats, block_size))
    return nodes


def _node(extent: Extent, number: int, parent: int | None, stats: CacheStats, block_size: int) -> TreeNode:
    state = "evicted" if not extent.is_attached else "cached" if extent.owner is None else "pending"
    return TreeNode(
        number=number,
        parent=parent,
        namespace=extent.namespace,
        state=state,
        num_blocks=extent.num_blocks,
        num_tokens=extent.num_blocks * block_size,
        first_tokens=unpack(bytes(extent.tokens[: FIRST_TOKENS * TOKEN_BYTES])),
        num_holders=extent.ref_count,
        num_hits=extent.num_uses if state == "cached" else 0,
        age_blocks=stats.num_stored_blocks - extent.stored_at[0] if state == "cached" else None,
    )

"""The prefix index: a tree whose edges are the tokens of full blocks. Exact: it compares the tokens themselves."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from anaphora.kvcache.block import Block
from anaphora.types import BlockKey, Namespace, RequestId

if TYPE_CHECKING:
    from anaphora.kvcache.census import CensusNode
    from anaphora.kvcache.eviction.visit import Visit


class PrefixNode:
    """One block-aligned prefix of one namespace: the path from the root spells its tokens.

    ==========  =========  =============
    state       ``block``  ``owner``
    ==========  =========  =============
    pending     set        the request that computes it in step ``step``
    cached      set        ``None``
    evicted     ``None``   ``None``       (remembered for the ledger; ``evicted_at`` is set)
    ==========  =========  =============
    """

    __slots__ = (
        "block",
        "census",
        "children",
        "evicted_at",
        "key",
        "namespace",
        "num_attached_children",
        "num_stores",
        "num_uses",
        "owner",
        "parent",
        "released_at",
        "step",
        "stored_at",
        "tokens",
        "turn",
        "visit",
    )

    def __init__(self, namespace: Namespace, parent: "PrefixNode | None", tokens: bytes) -> None:
        self.namespace = namespace
        self.parent = parent
        self.tokens = tokens
        self.children: dict[bytes, PrefixNode] = {}
        self.block: Block | None = None
        self.owner: RequestId | None = None
        self.step: int | None = None
        self.evicted_at: int | None = None
        self.census: CensusNode | None = None
        self.key: BlockKey | None = None
        # What eviction policies want to know; an evicted node keeps it as long as it is remembered.
        self.num_attached_children = 0
        """Children that have a block."""
        self.num_stores = 0
        """How often it was cached, counting from when it was first known."""
        self.num_uses = 0
        """Requests that found it since it is cached."""
        self.stored_at = 0
        """Its place in the order in which blocks were cached."""
        self.released_at = 0
        """Its place in the order in which blocks were given up by the last request that held them."""
        self.turn = 0
        """How many requests, one continuing the other, led to it; 0 until the first of them has left."""
        self.visit: Visit | None = None
        """With which blocks it was given up; ``None`` while a request holds it or has come back for it."""

    def is_usable(self, step: int | None) -> bool:
        """Whether its keys and values may be read by a request of ``step``: cached, or pending in that very step."""
        return self.block is not None and (self.owner is None or self.step == step)

    def attach(self, block: Block) -> None:
        """Give the node its block."""
        assert self.block is None, self.block
        assert block.node is None, block
        self.block = block
        block.node = self
        if self.parent is not None:
            self.parent.num_attached_children += 1

    def detach(self) -> Block:
        """Take the node's block away."""
        block = self.block
        assert block is not None
        assert block.node is self
        self.block = None
        self.owner = None
        self.step = None
        block.node = None
        if self.parent is not None:
            self.parent.num_attached_children -= 1
        return block


class PrefixIndex:
    """One tree per namespace. A root exists as long as it has children."""

    def __init__(self) -> None:
        self._roots: dict[Namespace, PrefixNode] = {}

    @property
    def num_namespaces(self) -> int:
        """Namespaces that have any node."""
        return len(self._roots)

    def match(self, namespace: Namespace, blocks: Iterable[bytes], step: int | None) -> list[PrefixNode]:
        """The longest usable run of nodes that spells the beginning of ``blocks``. Changes nothing."""
        path: list[PrefixNode] = []
        node = self._roots.get(namespace)
        if node is None:
            return path
        for tokens in blocks:
            node = node.children.get(tokens)
            if node is None or node.block is None or (node.owner is not None and node.step != step):
                break
            path.append(node)
        return path

    def child(self, namespace: Namespace, parent: PrefixNode | None, tokens: bytes) -> PrefixNode | None:
        """The node below ``parent`` (``None``: the root) in any state."""
        parent = parent or self._roots.get(namespace)
        return None if parent is None else parent.children.get(tokens)

    def insert(self, namespace: Namespace, parent: PrefixNode | None, tokens: bytes) -> PrefixNode:
        """The node below ``parent`` (``None``: the root), made if it is not there."""
        if parent is None:
            parent = self._roots.get(namespace)
            if parent is None:
                parent = self._roots[namespace] = PrefixNode(namespace, None, b"")
        node = parent.children.get(tokens)
        if node is None:
            node = parent.children[tokens] = PrefixNode(namespace, parent, tokens)
        return node

    def remove(self, node: PrefixNode) -> None:
        """Forget a node without block and children."""
        parent = node.parent
        assert parent is not None
        assert node.block is None
        assert not node.children
        del parent.children[node.tokens]
        if parent.parent is None and not parent.children:
            del self._roots[node.namespace]

    def clear(self) -> None:
        """Forget everything."""
        self._roots.clear()

    def __iter__(self) -> Iterator[PrefixNode]:
        """Every node but the roots, parents before children."""
        stack = list(self._roots.values())
        while stack:
            children = stack.pop().children.values()
            yield from children
            stack.extend(children)

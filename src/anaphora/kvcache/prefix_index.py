"""The prefix index: a tree of extents for each namespace. Exact: it compares the tokens themselves."""

from collections.abc import Iterator

from anaphora.kvcache.extent import Extent
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.types import Namespace


class PrefixIndex:
    """One tree per namespace. A root exists as long as it has children; ``None`` stands for it."""

    def __init__(self) -> None:
        self._roots: dict[Namespace, Extent] = {}
        self.main: Namespace | None = None
        """One of the namespaces, the same for as long as it has any extent; often the only one."""

    @property
    def num_namespaces(self) -> int:
        """Namespaces that have any extent."""
        return len(self._roots)

    @property
    def namespaces(self) -> list[Namespace]:
        """Those, in the order in which they came."""
        return list(self._roots)

    def walk(
        self, namespace: Namespace, blocks: TokenBlocks, limit: int, *, after: Extent | None = None, position: int = 0
    ) -> Iterator[tuple[Extent, int]]:
        """The extents, in any state, that spell ``blocks`` up to ``limit``; with each, how many of its blocks do.

        All but the last one are there as a whole. ``after`` ends before block ``position``, where the walk begins.
        """
        node, packed, width = after or self._roots.get(namespace), blocks.packed, blocks.width
        start, stop = position * width, limit * width
        while node is not None and start < stop:
            node = node.children.get(bytes(packed[start : start + width]))
            if node is None:
                return
            end = start + len(node.tokens)
            if end > stop or not packed.startswith(node.tokens, start):
                yield node, node.num_common(packed, start, stop)
                return
            yield node, node.num_blocks
            start = end

    def child(self, namespace: Namespace, parent: Extent | None, blocks: TokenBlocks, position: int) -> Extent | None:
        """The extent below ``parent``, in any state, that begins with a block."""
        parent = parent or self._roots.get(namespace)
        return None if parent is None else parent.child(blocks, position)

    def insert(self, namespace: Namespace, parent: Extent | None, tokens: bytearray, width: int) -> Extent:
        """A new extent below ``parent``."""
        if parent is None:
            parent = self._roots.get(namespace)
            if parent is None:
                parent = self._roots[namespace] = Extent(namespace, None, bytearray(), width)
                self.main = namespace if self.main is None else self.main
        return Extent(namespace, parent, tokens, width)

    def remove(self, extent: Extent) -> None:
        """Forget an extent without blocks and children."""
        assert not extent.block_ids
        extent.remove()
        parent = extent.parent
        if parent is not None and parent.parent is None and not parent.children:
            del self._roots[extent.namespace]
            self.main = None if self.main == extent.namespace else self.main

    def clear(self) -> None:
        """Forget everything."""
        self._roots.clear()
        self.main = None

    def __iter__(self) -> Iterator[Extent]:
        """Every extent but the roots, parents before children."""
        return self.extents()

    def extents(self, namespace: Namespace | None = None) -> Iterator[Extent]:
        """The same, of one namespace or of all."""
        stack = [root for name, root in self._roots.items() if namespace in (None, name)]
        while stack:
            children = stack.pop().children.values()
            yield from children
            stack.extend(children)

"""A tree of byte strings: what several of them begin with is there once."""

from bisect import bisect_left, insort

from anaphora.kvcache.token_blocks import num_common_units


class PromptNode:
    """Where strings part, or where one ends. The path from the root to a node spells ``depth`` bytes."""

    __slots__ = ("children", "depth", "edge", "first_bytes", "is_end", "parent")

    def __init__(self, parent: "PromptNode | None", edge: bytes, depth: int) -> None:
        self.parent = parent
        self.edge = edge
        """The bytes from the parent's end to this one: at least one, but for the root."""
        self.depth = depth
        self.is_end = False
        """Whether a string ends here."""
        self.children: dict[int, PromptNode] = {}
        """By the first byte of their edges."""
        self.first_bytes = bytearray()
        """Those, ascending."""
        if parent is not None:
            parent.adopt(self)

    @property
    def start(self) -> int:
        """Where the edge begins."""
        return self.depth - len(self.edge)

    def spelt(self, start: int, stop: int) -> bytes:
        """Bytes ``[start, stop)`` of the path to this node."""
        pieces: list[bytes] = []
        node: PromptNode | None = self
        while node is not None and node.depth > start:
            begin = node.start
            pieces.append(node.edge[max(start - begin, 0) : max(stop - begin, 0)])
            node = node.parent
        return b"".join(reversed(pieces))

    def adopt(self, child: "PromptNode") -> None:
        """Take a child, in the place of one that begins with the same byte or as a new one."""
        first = child.edge[0]
        if first not in self.children:
            insort(self.first_bytes, first)
        self.children[first] = child

    def drop(self, child: "PromptNode") -> None:
        """Lose a child."""
        del self.children[child.edge[0]]
        self.first_bytes.remove(child.edge[0])

    def first(self) -> "PromptNode":
        """The end of the first string, in the order of bytes, that has this path."""
        node = self
        while not node.is_end:
            node = node.children[node.first_bytes[0]]
        return node

    def last(self) -> "PromptNode":
        """The end of the last one."""
        node = self
        while node.children:
            node = node.children[node.first_bytes[-1]]
        return node


class PromptTree:
    """A radix tree. Every node but the root ends a string or has two children at least."""

    def __init__(self) -> None:
        self._root = PromptNode(None, b"", 0)

    def find(self, string: bytes) -> tuple[PromptNode, int]:
        """How many bytes of ``string`` are spelt in the tree, and the node at, or before, which they end."""
        node, position = self._root, 0
        while position < len(string):
            child = node.children.get(string[position])
            if child is None:
                break
            if not string.startswith(child.edge, position):
                return child, position + num_common_units(child.edge, memoryview(string)[position:], 1)
            node, position = child, child.depth
        return node, position

    def insert(self, string: bytes, node: PromptNode, num_common: int) -> PromptNode:
        """Where ``string``, for which :meth:`find` gave ``node`` and ``num_common``, ends from now on."""
        if num_common < node.depth:
            node = _cut(node, num_common)
        if num_common < len(string):
            node = PromptNode(node, string[num_common:], len(string))
        node.is_end = True
        return node

    def remove(self, node: PromptNode) -> None:
        """No string ends at ``node`` any more."""
        node.is_end = False
        parent = node.parent
        if not node.children and parent is not None:
            parent.drop(node)
            node = parent
        if not node.is_end and len(node.children) == 1 and node.parent is not None:
            _join(node)

    def neighbours(
        self, string: bytes, node: PromptNode, num_common: int, at_least: int
    ) -> tuple[PromptNode | None, PromptNode | None]:
        """Ends of the strings just before ``string`` in the order of bytes, and just after it or equal to it.

        Only those that have ``at_least`` bytes in common with it, one or more. ``node``, ``num_common``: as found.
        """
        following = string[num_common] if num_common < len(string) else -1
        if num_common == node.depth and following >= 0:  # between two children, or beyond them
            return _last_before(node, following, at_least), _first_after(node, following, at_least)
        if num_common < node.depth and following > node.edge[num_common - node.start]:
            return node.last(), _first_after(node.parent, node.edge[0], at_least)
        return _last_before(node.parent, node.edge[0], at_least), node.first()


def _last_before(node: PromptNode | None, byte: int, at_least: int) -> PromptNode | None:
    """The end of the last string before those that go on with ``byte`` after ``node``."""
    while node is not None and node.depth >= at_least:
        place = bisect_left(node.first_bytes, byte)
        if place:
            return node.children[node.first_bytes[place - 1]].last()
        if node.is_end:
            return node
        byte, node = node.edge[0], node.parent
    return None


def _first_after(node: PromptNode | None, byte: int, at_least: int) -> PromptNode | None:
    """The end of the first string after those that go on with ``byte`` after ``node``."""
    while node is not None and node.depth >= at_least:
        place = bisect_left(node.first_bytes, byte + 1)
        if place < len(node.first_bytes):
            return node.children[node.first_bytes[place]].first()
        byte, node = node.edge[0], node.parent
    return None


def _cut(node: PromptNode, depth: int) -> PromptNode:
    """Make a node of its own of a place inside an edge."""
    assert node.parent is not None
    length = depth - node.start
    upper = PromptNode(node.parent, node.edge[:length], depth)
    node.parent, node.edge = upper, node.edge[length:]
    upper.adopt(node)
    return upper


def _join(node: PromptNode) -> None:
    """Leave a node out that has one child, and where nothing ends."""
    assert node.parent is not None
    (child,) = node.children.values()
    child.parent, child.edge = node.parent, node.edge + child.edge
    node.parent.adopt(child)

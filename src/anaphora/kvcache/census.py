"""How many namespaces hold a prefix. Only the operator's ledger asks (class ``isolated``); no lookup reads this."""

from collections.abc import Iterable


class CensusNode:
    """One block-aligned prefix, whoever holds it. The path from the root spells its tokens."""

    __slots__ = ("_parent", "_tokens", "children", "num_holders")

    def __init__(self, parent: "CensusNode | None" = None, tokens: bytes = b"") -> None:
        self._parent = parent
        self._tokens = tokens
        self.children: dict[bytes, CensusNode] = {}
        self.num_holders = 0
        """Namespaces in which the prefix is cached. A holder of a prefix holds all its beginnings."""

    def enter(self, tokens: bytes) -> "CensusNode":
        """One more namespace holds this prefix continued by the block ``tokens``."""
        child = self.children.get(tokens)
        if child is None:
            child = self.children[tokens] = CensusNode(self, tokens)
        child.num_holders += 1
        return child

    def leave(self) -> None:
        """One namespace less holds this prefix."""
        self.num_holders -= 1
        if self.num_holders == 0:
            assert self._parent is not None
            assert not self.children
            del self._parent.children[self._tokens]

    def num_held(self, blocks: Iterable[bytes]) -> int:
        """How many of ``blocks``, from the first on, some namespace holds below this prefix."""
        node = self
        num_held = 0
        for tokens in blocks:
            child = node.children.get(tokens)
            if child is None:
                break
            node = child
            num_held += 1
        return num_held

    def num_descendants(self) -> int:
        """Prefixes that some namespace holds below this one."""
        stack, count = [self], -1
        while stack:
            stack.extend(stack.pop().children.values())
            count += 1
        return count

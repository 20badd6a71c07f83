"""How many namespaces hold a prefix. Only the operator's ledger asks (class ``isolated``); no lookup reads this."""

from typing import Self

from anaphora.kvcache.run import Run
from anaphora.kvcache.token_blocks import TokenBlocks


class CensusRun(Run):
    """Blocks that the same number of namespaces hold. The path from the root spells a prefix, whoever holds it."""

    __slots__ = ("num_ends", "num_holders")

    def __init__(self, parent: Self | None, tokens: bytearray, width: int) -> None:
        super().__init__(parent, tokens, width)
        self.num_holders = 0
        """Namespaces in which the prefix is cached. A holder of a prefix holds all its beginnings."""
        self.num_ends = 0
        """Extents of the prefix index that end here."""

    def enter(self, tokens: bytearray) -> "CensusRun":
        """One more namespace holds this prefix continued by ``tokens``. Returns where that ends."""
        node, width, start = self, self.width, 0
        while start < len(tokens):
            child = node.children.get(bytes(tokens[start : start + width]))
            if child is None:
                child = CensusRun(node, tokens[start:], width)
            else:
                num_common = child.num_common(tokens, start, len(tokens))
                child = child.split(num_common) if num_common < child.num_blocks else child
            child.num_holders += 1
            start += len(child.tokens)
            node = child
        node.num_ends += 1
        return node

    def leave(self, num_blocks: int) -> "CensusRun":
        """One namespace less holds the last ``num_blocks`` blocks of this prefix. Returns where what it keeps ends."""
        self.num_ends -= 1
        kept = self._back(num_blocks)
        node = self
        while node is not kept:
            assert node.parent is not None
            node.num_holders -= 1
            if node.num_holders == 0:
                node.remove()
            node = node.parent
        return kept

    def end_at(self, num_blocks: int) -> "CensusRun":
        """An extent that ended here is cut: another one ends ``num_blocks`` blocks before. Returns where."""
        node = self._back(num_blocks)
        node.num_ends += 1
        return node

    def no_end(self) -> None:
        """No extent of some namespace ends here any more, but one goes on."""
        self.num_ends -= 1
        children: list[CensusRun] = list(self.children.values())
        if self.num_ends == 0 and len(children) == 1 and children[0].num_holders == self.num_holders:
            children[0].take_in(self)

    def num_held(self, blocks: TokenBlocks) -> int:
        """How many of ``blocks``, from the first on, some namespace holds below this prefix."""
        node, position = self, 0
        while position < blocks.num_full:
            child = node.child(blocks, position)
            if child is None:
                break
            num_common = child.num_common(blocks.packed, position * self.width, len(blocks.packed))
            position += num_common
            if num_common < child.num_blocks:
                break
            node = child
        return position

    def split(self, num_blocks: int) -> "CensusRun":
        """Cut the first ``num_blocks`` blocks off; returns them as a new run, this one's parent."""
        upper = CensusRun(None, bytearray(), self.width)
        upper.parent, upper.num_holders = self.parent, self.num_holders
        self.cut(upper, num_blocks)
        return upper

    def _back(self, num_blocks: int) -> "CensusRun":
        """What ends ``num_blocks`` blocks before this one."""
        node = self
        while num_blocks:
            assert node.parent is not None
            if node.num_blocks > num_blocks:
                return node.split(node.num_blocks - num_blocks)
            num_blocks -= node.num_blocks
            node = node.parent
        return node

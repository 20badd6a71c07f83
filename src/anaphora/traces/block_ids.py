"""Block identities of hashed traces: exact integers of any size, renumbered, checked for contradictions."""

from array import array
from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import count
from operator import ne

from anaphora.traces.findings import FindingKind, Findings
from anaphora.traces.request import HashedPrompt


class BlockIds:
    """Renumbers ids from 0 in the order of their appearance.

    Ids are compared as Python integers: neighbours beyond 2^53, which readers that go through doubles merge, stay
    apart.
    """

    def __init__(self, block_size: int, findings: Findings) -> None:
        self._block_size = block_size
        self._findings = findings
        self._numbers: defaultdict[Hashable, int] = defaultdict(count().__next__)
        self._parents = array("q")
        """By number, the block before it where it was first seen, or -1."""
        self._partial: set[Hashable] = set()
        self._num_unnamed = 0

    def prompt(self, ids: Sequence[int], num_tokens: int, line: int, scope: str | None = None) -> HashedPrompt | None:
        """The prompt that ``ids`` spell; ``None``, and a finding, if they cannot be the blocks of that many tokens.

        ``scope`` is the session to which the ids are local. A last partial block may lack its id.

        Raises:
            ValueError: something in ``ids`` is no integer.
        """
        if not set(map(type, ids)) <= {int}:
            wrong = next(block_id for block_id in ids if type(block_id) is not int)
            raise ValueError(f"block ids must be integers, got {wrong!r}")
        num_full, num_tail = divmod(num_tokens, self._block_size)
        if len(ids) not in (num_full, num_full + bool(num_tail)):
            detail = f"{len(ids)} ids for {num_tokens} tokens in blocks of {self._block_size}"
            self._findings.add(FindingKind.WRONG_BLOCK_COUNT, line, detail)
            return None
        keys: list[Hashable] = list(ids) if scope is None else [(scope, block_id) for block_id in ids]
        if not self._partial.isdisjoint(keys[:num_full]):
            self._findings.add(FindingKind.ID_OF_TWO_SIZES, line)
        if num_tail:
            keys[num_full:] = [self._tail_key(keys[num_full:], num_tail, line)]
        return HashedPrompt(self._renumber(keys, line), num_tokens)

    def _tail_key(self, last: Sequence[Hashable], num_tokens: int, line: int) -> Hashable:
        """An id is another block where it stands for fewer tokens; a block without an id is like no other."""
        if not last:
            self._num_unnamed += 1
            self._findings.add(FindingKind.UNIDENTIFIED_TAIL, line)
            return ("unnamed", self._num_unnamed)
        key = ("partial", last[0], num_tokens)
        if last[0] in self._numbers or (last[0] in self._partial and key not in self._numbers):
            self._findings.add(FindingKind.ID_OF_TWO_SIZES, line)
        self._partial.add(last[0])
        return key

    def _renumber(self, keys: Sequence[Hashable], line: int) -> "array[int]":
        num_before = len(self._numbers)
        renumbered = list(map(self._numbers.__getitem__, keys))
        num_known = len(keys) - (len(self._numbers) - num_before)
        parents = [-1, *renumbered[:-1]]
        if renumbered[num_known:] == list(range(num_before, len(self._numbers))):
            self._parents.extend(parents[num_known:])  # as nearly always: first what is known, then what is new
        else:
            for number, parent in zip(renumbered, parents, strict=True):
                if number == len(self._parents):
                    self._parents.append(parent)
        first_parents = list(map(self._parents.__getitem__, renumbered))
        if first_parents != parents:
            num_moved = sum(map(ne, first_parents, parents))
            self._findings.add(FindingKind.ID_WITH_TWO_PARENTS, line, count=num_moved)
        return array("I", renumbered)

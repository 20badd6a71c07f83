"""Block identities of hashed traces: exact integers of any size, renumbered, checked for contradictions."""

from array import array
from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import count
from operator import ne

from anaphora.traces.findings import FindingKind, Findings
from anaphora.traces.own_numbers import OwnNumbers
from anaphora.traces.request import HashedPrompt


class BlockIds:
    """Renumbers ids from 0 in the order of their appearance. Those of many traces are so already, and stay as they are.

    Ids are compared as Python integers: neighbours beyond 2^53, which readers that go through doubles merge, stay
    apart.
    """

    def __init__(self, block_size: int, findings: Findings) -> None:
        self._block_size = block_size
        self._findings = findings
        self._own: OwnNumbers | None = OwnNumbers()
        """As long as all ids have stayed as they are; after that the two below are used."""
        self._numbers: defaultdict[Hashable, int] = defaultdict(count().__next__)
        self._parents = array("q")
        """By number, the block before it where it was first seen, or -1."""
        self._partial: dict[Hashable, int] = {}
        """Ids that have stood for less than a block, and for how many tokens at first."""
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
        if self._own is not None:
            if scope is None and (path := self._own_path(self._own, ids, num_full, num_tail)):
                return HashedPrompt(path, num_tokens)
            self._stop_owning(self._own)
        keys: list[Hashable] = list(ids) if scope is None else [(scope, block_id) for block_id in ids]
        if not self._partial.keys().isdisjoint(keys[:num_full]):
            self._findings.add(FindingKind.ID_OF_TWO_SIZES, line)
        if num_tail:
            keys[num_full:] = [self._tail_key(keys[num_full:], num_tail, line)]
        return HashedPrompt(self._renumber(keys, line), num_tokens)

    def _own_path(self, own: OwnNumbers, ids: Sequence[int], num_full: int, num_tail: int) -> "array[int] | None":
        """The ids as they are; ``None`` if that would not do: they number no prefixes, or one stands for two sizes."""
        if len(ids) < num_full + bool(num_tail) or not self._partial.keys().isdisjoint(ids[:num_full]):
            return None
        if num_tail and ids[-1] < len(own) and self._partial.get(ids[-1]) != num_tail:
            return None
        try:
            path = array("I", ids)
        except OverflowError:
            return None
        if not own.take(path):
            return None
        if num_tail:
            self._partial[ids[-1]] = num_tail
        return path

    def _stop_owning(self, own: OwnNumbers) -> None:
        """Go on with what the ids were so far."""
        self._own = None
        keys = [
            ("partial", number, self._partial[number]) if number in self._partial else number
            for number in range(len(own))
        ]
        self._numbers = defaultdict(count(len(own)).__next__, zip(keys, count(), strict=False))
        self._parents.extend(own.parents())

    def _tail_key(self, last: Sequence[Hashable], num_tokens: int, line: int) -> Hashable:
        """An id is another block where it stands for fewer tokens; a block without an id is like no other."""
        if not last:
            self._num_unnamed += 1
            self._findings.add(FindingKind.UNIDENTIFIED_TAIL, line)
            return ("unnamed", self._num_unnamed)
        key = ("partial", last[0], num_tokens)
        if last[0] in self._numbers or (last[0] in self._partial and key not in self._numbers):
            self._findings.add(FindingKind.ID_OF_TWO_SIZES, line)
        self._partial.setdefault(last[0], num_tokens)
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

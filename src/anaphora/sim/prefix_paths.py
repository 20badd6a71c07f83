"""Which blocks of a trace are the same prefix, numbered; when each will be used next; how many there are."""

from array import array
from collections.abc import Iterable, Sequence

from anaphora.sim.prompt_blocks import PromptBlocks
from anaphora.traces.own_numbers import OwnNumbers

NEVER = 2**32 - 1
"""The time of a use that does not come."""


def paths_of(prompts: Sequence[PromptBlocks]) -> list["array[int]"]:
    """For each prompt the number of the prefix that ends with each of its blocks. Equal numbers are equal prefixes."""
    own = _own_paths(prompts)
    if own is not None:
        return own
    return _Numbering().paths((prompt, [] if prompt.is_hashed else prompt.blocks) for prompt in prompts)


def paths_with_answers(prompts: Iterable[PromptBlocks]) -> list["array[int]"]:
    """The same of all blocks that a request computes: where the answer is known, it continues its prompt."""
    return _Numbering().paths((prompt, [] if prompt.is_hashed else prompt.computed_blocks()) for prompt in prompts)


def _own_paths(prompts: Sequence[PromptBlocks]) -> list["array[int]"] | None:
    """A trace's own block ids, if they number its prefixes."""
    if not all(prompt.is_hashed for prompt in prompts) or len({prompt.namespace for prompt in prompts}) > 1:
        return None
    numbers = OwnNumbers()
    paths = [array("I", prompt.packed) for prompt in prompts]
    return paths if all(map(numbers.take, paths)) else None


class _Numbering:
    """A prefix is known by the number of the one before it and that of its last block, both in one integer.

    Millions of integers take far less time and memory than as many pairs of objects.
    """

    _TOKENS = 1 << 32
    """Numbers of blocks of tokens begin here: below it are a trace's own block ids."""

    def __init__(self) -> None:
        self._prefixes: dict[int, int] = {}
        self._blocks: dict[bytes, int] = {}
        self._namespaces: dict[str, int] = {}

    def paths(self, requests: Iterable[tuple[PromptBlocks, Sequence[bytes]]]) -> list["array[int]"]:
        """Each prompt with its blocks; a hashed one's are its ids."""
        return [self._path(prompt, blocks) for prompt, blocks in requests]

    def _path(self, prompt: PromptBlocks, blocks: Sequence[bytes]) -> "array[int]":
        prefixes, contents = self._prefixes, self._blocks
        if prompt.is_hashed:
            numbers: Iterable[int] = array("I", prompt.packed)
        else:
            numbers = [self._TOKENS + contents.setdefault(block, len(contents)) for block in blocks]
        prefix = -1 - self._namespaces.setdefault(prompt.namespace, len(self._namespaces))
        path: list[int] = []
        for number in numbers:
            prefix = prefixes.setdefault((prefix << 33) + number, len(prefixes))
            path.append(prefix)
        return array("I", path)


def count_prefixes(paths: Sequence["array[int]"]) -> int:
    """Distinct prefixes: the blocks that a cache without bounds would hold. The last one numbered ends a path."""
    return 1 + max([path[-1] for path in paths])


def next_uses(paths: Sequence["array[int]"], num_reusable: Sequence[int]) -> list["array[int]"]:
    """For each block of each request, the number of the request that can reuse it next, or :data:`NEVER`.

    ``num_reusable``: how many of its blocks a request can take from a cache. A block's beginning is never used later
    than the block.
    """
    upcoming = array("I", [NEVER]) * count_prefixes(paths)
    uses: list[array[int]] = []
    for number in reversed(range(len(paths))):
        path = paths[number]
        uses.append(array("I", [upcoming[prefix] for prefix in path]))
        for prefix in path[: num_reusable[number]]:
            upcoming[prefix] = number
    uses.reverse()
    return uses

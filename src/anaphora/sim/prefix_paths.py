"""Which blocks of a trace are the same prefix, numbered; when each will be used next; how many there are."""

from array import array
from collections.abc import Iterable, Sequence

from anaphora.sim.prompt_blocks import PromptBlocks
from anaphora.types import Namespace

NEVER = 2**32 - 1
"""The time of a use that does not come."""


def paths_of(prompts: Iterable[PromptBlocks]) -> list["array[int]"]:
    """For each prompt the number of the prefix that ends with each of its blocks. Equal numbers are equal prefixes."""
    return _paths((prompt.namespace, prompt.blocks) for prompt in prompts)


def paths_with_answers(prompts: Iterable[PromptBlocks]) -> list["array[int]"]:
    """The same of all blocks that a request computes: where the answer is known, it continues its prompt."""
    return _paths((prompt.namespace, prompt.computed_blocks()) for prompt in prompts)


def _paths(requests: Iterable[tuple[Namespace, Sequence[bytes]]]) -> list["array[int]"]:
    numbers: dict[tuple[object, bytes], int] = {}
    paths: list[array[int]] = []
    for namespace, blocks in requests:
        path = array("I")
        prefix: object = namespace
        for block in blocks:
            prefix = numbers.setdefault((prefix, block), len(numbers))
            path.append(prefix)
        paths.append(path)
    return paths


def count_prefixes(paths: Sequence["array[int]"]) -> int:
    """Distinct prefixes: the blocks that a cache without bounds would hold."""
    return 1 + max(max(path) for path in paths)


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

"""A share of a trace: groups of prompts that begin alike are kept or left out together, so that trees stay whole.

Caches of the sample are smaller, so a sweep costs about that share of the time and memory. What the sample tells of
the whole is worked out in :mod:`anaphora.sim.estimates`.
"""

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from anaphora.errors import ConfigError
from anaphora.sim.prefix_paths import count_prefixes, paths_of
from anaphora.sim.prompt_blocks import PromptBlocks

LARGEST_GROUP = 0.05
MAX_DEPTH = 64


class Sample(NamedTuple):
    """``depth``: blocks by which prompts are grouped. ``scale``: distinct blocks of the sample per one of the whole.

    ``groups``: for each prompt the group that it belongs to; of all ``num_groups``, a ``fraction`` was to be kept.
    """

    prompts: list[PromptBlocks]
    groups: list[int]
    fraction: float
    depth: int
    num_groups: int
    scale: float


def sample(prompts: Sequence[PromptBlocks], fraction: float, *, draw: int = 0) -> Sample:
    """Keep about ``fraction`` of the groups, chosen by a digest of what they begin with: the same ones every time.

    Prompts are grouped by the fewest blocks that leave no group with more than a twentieth of all requests: a system
    prompt that everybody shares does not hold a trace together. Of the disjoint samples of that fraction, ``draw``
    numbers the one to take.

    Raises:
        ConfigError: the fraction is not above 0 and at most 1, or nothing is left.
    """
    if not 0 < fraction <= 1:
        raise ConfigError(f"a sample must be a fraction above 0 and at most 1, got {fraction}")
    depth = next((d for d in range(1, MAX_DEPTH) if _largest_group(prompts, d) <= LARGEST_GROUP), MAX_DEPTH)
    numbers = {group: number for number, group in enumerate(dict.fromkeys(_group(p, depth) for p in prompts))}
    kept = [prompt for prompt in prompts if draw <= _place(prompt, depth) / fraction < draw + 1]
    if not kept:
        raise ConfigError(f"a sample of {fraction} leaves no request of {len(prompts)}: take a larger fraction")
    scale = count_prefixes(paths_of(kept)) / count_prefixes(paths_of(prompts))
    return Sample(kept, [numbers[_group(prompt, depth)] for prompt in kept], fraction, depth, len(numbers), scale)


def _group(prompt: PromptBlocks, depth: int) -> tuple[str, bytes]:
    return prompt.namespace, prompt.beginning(depth)


def _largest_group(prompts: Sequence[PromptBlocks], depth: int) -> float:
    return max(Counter(_group(prompt, depth) for prompt in prompts).values()) / len(prompts)


def _place(prompt: PromptBlocks, depth: int) -> float:
    """From 0 to 1, evenly spread over groups."""
    namespace, beginning = _group(prompt, depth)
    return int.from_bytes(sha256(namespace.encode() + b"\0" + beginning).digest()[:7], "big") / 2**56

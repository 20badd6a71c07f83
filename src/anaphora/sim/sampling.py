"""A share of a trace that behaves like the whole: groups of prompts that begin alike are kept or left out together.

Caches of the sample are smaller in proportion, so a sweep costs that share of the time and memory.
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
    """``depth``: blocks by which prompts are grouped. ``scale``: distinct blocks of the sample per one of the whole."""

    prompts: list[PromptBlocks]
    depth: int
    num_groups: int
    scale: float


def sample(prompts: Sequence[PromptBlocks], fraction: float) -> Sample:
    """Keep about ``fraction`` of the groups, chosen by a digest of what they begin with: the same ones every time.

    Prompts are grouped by the fewest blocks that leave no group with more than a twentieth of all requests: a system
    prompt that everybody shares does not hold a trace together.

    Raises:
        ConfigError: the fraction is not above 0 and at most 1, or nothing is left.
    """
    if not 0 < fraction <= 1:
        raise ConfigError(f"a sample must be a fraction above 0 and at most 1, got {fraction}")
    depth = next((d for d in range(1, MAX_DEPTH) if _largest_group(prompts, d) <= LARGEST_GROUP), MAX_DEPTH)
    kept = [prompt for prompt in prompts if _place(prompt, depth) < fraction]
    if not kept:
        raise ConfigError(f"a sample of {fraction} leaves no request of {len(prompts)}: take a larger fraction")
    scale = count_prefixes(paths_of(kept)) / count_prefixes(paths_of(prompts))
    return Sample(kept, depth, len({_group(prompt, depth) for prompt in prompts}), scale)


def _group(prompt: PromptBlocks, depth: int) -> tuple[str, bytes]:
    return prompt.namespace, b"".join(prompt.blocks[:depth])


def _largest_group(prompts: Sequence[PromptBlocks], depth: int) -> float:
    return max(Counter(_group(prompt, depth) for prompt in prompts).values()) / len(prompts)


def _place(prompt: PromptBlocks, depth: int) -> float:
    """From 0 to 1, evenly spread over groups."""
    namespace, beginning = _group(prompt, depth)
    return int.from_bytes(sha256(namespace.encode() + b"\0" + beginning).digest()[:7], "big") / 2**56

"""A sample keeps what begins alike together, and is the same every time."""

from pathlib import Path

import pytest

from anaphora.errors import ConfigError
from anaphora.sim.prefix_paths import count_prefixes, paths_of
from anaphora.sim.prompt_blocks import cut_into_blocks
from anaphora.sim.sampling import sample
from anaphora.traces.reader import read_trace

TRACE = Path(__file__).parents[1] / "data" / "traces" / "mooncake_conversation_300.jsonl.gz"
PROMPTS = cut_into_blocks(read_trace(TRACE))


def test_groups_are_whole() -> None:
    drawn = sample(PROMPTS, 0.5)
    assert drawn.depth == 2  # all prompts of the trace share their first block
    assert drawn.prompts == sample(PROMPTS, 0.5).prompts
    kept = {tuple(prompt.blocks[:2]) for prompt in drawn.prompts}
    assert [p for p in PROMPTS if tuple(p.blocks[:2]) in kept] == drawn.prompts
    assert 0.3 < len(kept) / drawn.num_groups < 0.7
    assert len(set(drawn.groups)) == len(kept)
    pairs = {(group, tuple(p.blocks[:2])) for group, p in zip(drawn.groups, drawn.prompts, strict=True)}
    assert len(pairs) == len(kept)
    assert drawn.scale == count_prefixes(paths_of(drawn.prompts)) / count_prefixes(paths_of(PROMPTS))


def test_a_smaller_sample_is_part_of_a_larger_one_and_the_whole_is_the_whole() -> None:
    small, large = (sample(PROMPTS, fraction).prompts for fraction in (0.2, 0.6))
    assert [prompt for prompt in large if prompt in small] == small
    assert sample(PROMPTS, 1.0).prompts == PROMPTS


def test_fractions_that_are_none() -> None:
    for fraction in (0.0, 1.5, float("nan")):
        with pytest.raises(ConfigError, match="above 0 and at most 1"):
            sample(PROMPTS, fraction)
    with pytest.raises(ConfigError, match="leaves no request of 300"):
        sample(PROMPTS, 1e-9)

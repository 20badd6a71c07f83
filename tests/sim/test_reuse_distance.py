"""Reuse distances by hand, against the naive count, and against a replay of LRU."""

from array import array
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.kvcache.config import CacheConfig
from anaphora.sim.cache_replay import CacheReplay, count_by_trace_rule
from anaphora.sim.lru_curve import engine_curve, trace_rule_curve
from anaphora.sim.prefix_paths import paths_of, paths_with_answers
from anaphora.sim.prompt_blocks import cut_into_blocks
from anaphora.sim.references import FIRST, References
from anaphora.sim.reuse_distance import count_greater_before, reuse_distances
from anaphora.sim.sweep import RunPlan, Sweep
from anaphora.traces.reader import read_trace
from anaphora.traces.request import TokenPrompt, Trace, TraceRequest

DATA = Path(__file__).parents[1] / "data"
CONVERSATION = DATA / "traces" / "mooncake_conversation_300.jsonl.gz"

Paths = list[list[int]]


def naive_distances(paths: Paths) -> list[int]:
    """The definition: blocks of other requests since, and the block's own beginning."""
    row: list[int] = []
    distances: list[int] = []
    for path in paths:  # `row` does not grow while a request is looked at
        for block in reversed(path):
            since = row[len(row) - row[::-1].index(block) :] if block in row else None
            distances.append(FIRST if since is None else len(set(since)))
        row += reversed(path)
    return distances


@st.composite
def trees(draw: st.DrawFn) -> Paths:
    """Paths through a tree whose node ``i`` continues node ``(i - 1) // 2``."""
    ends = draw(st.lists(st.integers(0, 40), max_size=25))
    paths: Paths = []
    for end in ends:
        path = [end]
        while path[0]:
            path.insert(0, (path[0] - 1) // 2)
        paths.append(path)
    return paths


def test_by_hand() -> None:
    #  A: 0 1 2   B: 0 3   A again   and only its beginning
    references = References.of([[0, 1, 2], [0, 3], [0, 1, 2], [0, 1]])
    assert references.blocks.tolist() == [2, 1, 0, 3, 0, 2, 1, 0, 1, 0]
    assert references.requests.tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]
    assert references.depths.tolist() == [2, 1, 0, 1, 0, 2, 1, 0, 1, 0]
    assert references.starts.tolist() == [0, 0, 0, 3, 3, 5, 5, 5, 8, 8]
    assert references.previous.tolist() == [-1, -1, -1, -1, 2, 0, 1, 4, 6, 7]
    # Block 2 comes back after 1, 3 and 0: a cache of three blocks has lost it, one of four has not.
    assert reuse_distances(references).tolist() == [-1, -1, -1, -1, 0, 3, 2, 0, 1, 0]


@given(trees())
def test_equals_the_naive_count(paths: Paths) -> None:
    references = References.of(paths)
    distances = reuse_distances(references)
    assert distances.tolist() == naive_distances(paths)
    for request in range(len(paths)):  # a block's beginning is nearer than the block
        of_request = distances[references.requests == request]
        known = of_request[of_request != FIRST]
        assert (np.diff(known) < 0).all()


@given(st.permutations(range(33)), st.integers(0, 33))
def test_greater_numbers_before_each(values: list[int], count: int) -> None:
    chosen = values[:count]
    expected = [sum(other > value for other in chosen[:place]) for place, value in enumerate(chosen)]
    assert count_greater_before(np.array(chosen, np.int64) * 7).tolist() == expected


@pytest.mark.parametrize("num_blocks", [1, 2, 3, 30, 200, 500, 1000, 2500, None])
def test_a_replay_of_lru_counts_the_same(num_blocks: int | None) -> None:
    prompts = cut_into_blocks(read_trace(CONVERSATION))
    paths = paths_of(prompts)
    run = Sweep(prompts).run(RunPlan("lru", num_blocks), lambda num_done: None)
    size = 10_000 if num_blocks is None else num_blocks  # with room for all of them
    config = CacheConfig(num_blocks=size, block_size=1, eviction_policy="lru")
    assert run.trace_rule == count_by_trace_rule(prompts, config, None, lambda num_done: None)
    assert run.trace_rule.num_hit_tokens == trace_rule_curve(prompts, paths).num_hits(num_blocks)
    engine = engine_curve(prompts, paths)
    one_less = None if num_blocks is None else num_blocks - 1
    assert engine.num_hits(one_less) <= run.engine.num_cached_tokens <= engine.num_hits(num_blocks)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 20), st.integers(0, 6)), min_size=1, max_size=25),
    st.integers(8, 20),
)
@settings(deadline=None, max_examples=40)
def test_known_answers_are_used_too(requests: list[tuple[int, int, int]], num_blocks: int) -> None:
    """Prompts are beginnings of a few texts, and so are answers: the next turn finds what the last one wrote."""
    asked = tuple(
        TraceRequest(
            line=line,
            arrival_s=None,
            prompt=TokenPrompt(array("I", range(100 * text, 100 * text + length))),
            output_token_ids=range(100 * text + length, 100 * text + length + num_answer),
        )
        for line, (text, length, num_answer) in enumerate(requests)
    )
    prompts = cut_into_blocks(Trace(Path("made"), "token-ids", None, len(asked), asked, ()), 4)
    curve = engine_curve(prompts, paths_with_answers(prompts))
    replay = CacheReplay(CacheConfig(num_blocks=num_blocks, block_size=4, eviction_policy="lru"))
    cached = sum(replay.ask(prompt).num_cached_tokens for prompt in prompts)
    # An answer that is cached already takes up to two blocks more until it is known to be.
    assert curve.num_hits(num_blocks - 3) <= cached <= curve.num_hits(num_blocks)

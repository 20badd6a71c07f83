"""The working set and times to reuse, by hand and against the definition."""

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anaphora.sim.prefix_paths import paths_of
from anaphora.sim.prompt_blocks import cut_into_blocks
from anaphora.sim.references import References
from anaphora.sim.reuse import reuse_of
from anaphora.sim.working_set import clock_of, distinct_so_far, times_to_reuse, working_set
from anaphora.traces.reader import read_trace

DATA = Path(__file__).parents[1] / "data"


def test_by_hand() -> None:
    references = References.of([[0, 1], [0, 2], [1], [2, 3]])
    times = np.array([0.0, 1.0, 5.0, 5.0])
    at = np.array([-1.0, 0.0, 1.0, 2.0, 4.9, 5.0, 7.0])
    assert working_set(references, times, 2.0, at).tolist() == [0, 2, 3, 2, 0, 3, 0]
    assert distinct_so_far(references, times, at).tolist() == [0, 2, 3, 3, 3, 4, 4]
    assert times_to_reuse(references, times).tolist() == [1.0, 5.0, 4.0]  # blocks 0, 1 and 2


@given(
    st.lists(st.tuples(st.integers(0, 20), st.sets(st.integers(0, 9), min_size=1)), min_size=1, max_size=20),
    st.integers(1, 30),
)
def test_equals_the_definition(uses: list[tuple[int, set[int]]], window: int) -> None:
    uses = sorted(uses, key=lambda use: use[0])
    references = References.of([sorted(blocks) for _, blocks in uses])
    times, at = np.array([float(time) for time, _ in uses]), np.arange(45.0)
    within = [{b for time, blocks in uses for b in blocks if end - window < time <= end} for end in range(45)]
    assert working_set(references, times, float(window), at).tolist() == list(map(len, within))
    so_far = [{b for time, blocks in uses for b in blocks if time <= end} for end in range(45)]
    assert distinct_so_far(references, times, at).tolist() == list(map(len, so_far))


def test_the_clock_is_the_traces_own_if_it_has_one() -> None:
    clock = clock_of([10.0, 12.5])
    assert clock is not None
    assert clock.tolist() == [0.0, 2.5]
    assert clock_of([1.0, None]) is None
    assert clock_of([3.0, 3.0]) is None


def test_a_traces_own_figures() -> None:
    prompts = cut_into_blocks(read_trace(DATA / "traces" / "mooncake_conversation_300.jsonl.gz"))
    found = reuse_of(prompts, paths_of(prompts))
    assert found["block_uses"] == sum(prompt.num_full_blocks for prompt in prompts)
    assert found["distance_blocks"]["share"][-1] == found["time_to_reuse_s"]["share"][-1] == 1
    assert found["working_set"]["clock"] == "seconds"
    assert found["working_set"]["distinct_so_far"][-1] == found["first_uses"]
    assert [window["length"] for window in found["working_set"]["windows"]] == [1, 10]
    timeless = [prompt._replace(arrival_s=None) for prompt in prompts]
    found = reuse_of(timeless, paths_of(prompts))
    assert found["time_to_reuse_s"] is None
    assert (found["working_set"]["clock"], found["working_set"]["at"][-1]) == ("requests", 299)


def test_a_trace_without_any_reuse() -> None:
    (prompt, *_) = cut_into_blocks(read_trace(DATA / "traces" / "mooncake_conversation_300.jsonl.gz"))
    found = reuse_of([prompt], paths_of([prompt]))
    assert found["distance_blocks"] is None
    assert found["lru"] == {"capacity_blocks": [1], "token_hit_rate": [0.0]}

"""The policies' benchmark: how it cuts traces, makes traffic, and counts."""

from array import array
from pathlib import Path

import pytest
from benchmarks.cache.mixes import MIXES, make_mix
from benchmarks.cache.policies import BELADY, HALVES, Arena, compare, halves, merged
from benchmarks.cache.returns import leavings_of, look_at
from benchmarks.cache.tuning import changed

from anaphora.kvcache.eviction import default
from anaphora.sim.prompt_blocks import cut_into_blocks
from anaphora.traces.reader import read_trace
from anaphora.traces.request import HashedPrompt, Trace, TraceRequest

TRACE = Path(__file__).parents[1] / "data" / "traces" / "mooncake_conversation_300.jsonl.gz"


def prompt_of(request: TraceRequest) -> HashedPrompt:
    assert isinstance(request.prompt, HashedPrompt)
    return request.prompt


def hashed_trace(*paths: list[int]) -> Trace:
    """Blocks of 10 tokens, and one token more with an id of its own."""
    requests = tuple(
        TraceRequest(
            line=line,
            arrival_s=None,
            prompt=HashedPrompt(array("I", [*path, 1000 + line]), 10 * len(path) + 1),
            num_output_tokens=line,
        )
        for line, path in enumerate(paths)
    )
    return Trace(Path("made"), "mooncake", 10, len(requests), requests, ())


def test_halves_keep_together_what_begins_alike() -> None:
    trace = read_trace(TRACE)
    parts = halves(trace)
    assert sum(len(part.requests) for part in parts.values()) == len(trace.requests)
    groups = [{tuple(prompt_of(request).block_ids[:2]) for request in part.requests} for part in parts.values()]
    assert not groups[0] & groups[1]
    assert all(len(parts[half].requests) > 100 for half in HALVES)


@pytest.mark.parametrize("name", MIXES)
def test_a_mix_is_the_same_every_time_and_another_with_another_seed(name: str) -> None:
    first, again, other = make_mix(name, 1, 60), make_mix(name, 1, 60), make_mix(name, 2, 60)
    assert first == again != other
    assert len(first.requests) == 60
    for request in first.requests:
        prompt = prompt_of(request)
        assert len(prompt.block_ids) == -(-prompt.num_tokens // 64)


def test_shares_of_the_gap() -> None:
    rates = {"lru": [0.1, 0.3, 0.5], BELADY: [0.5, 0.4, 0.5], "fifo": [0.2, 0.25, 0.4]}
    result = compare(rates)
    assert result["gap_closed"]["fifo"] == {"mean": -0.125, "pooled": -0.1}
    assert result["worst_points_against_lru"] == {"lru": 0, BELADY: 0, "fifo": -10}
    assert compare({"fifo": [0.1]}) == {}
    assert compare({"lru": [0.1, 0.2], "fifo": [0.2, 0.1]}) == {"worst_points_against_lru": {"lru": 0, "fifo": -10}}
    assert compare({"lru": [0.1], BELADY: [0.1]})["gap_closed"]["lru"] == {"mean": None, "pooled": None}


def test_policies_on_a_small_mix() -> None:
    arena = Arena(make_mix("retrieval", 1, 50))
    found = arena.try_out(["lru", BELADY])
    assert found["capacity_blocks"] == [int(share * found["working_set_blocks"]) for share in (0.05, 0.1, 0.2, 0.4)]
    assert all(0 < lru <= best for lru, best in zip(*found["token_hit_rate"].values(), strict=True))
    new = arena.try_out(["fifo"])
    assert set(merged(found, new)["token_hit_rate"]) == {"lru", BELADY, "fifo"}
    assert set(merged({**found, "num_requests": 1}, new)["token_hit_rate"]) == {"fifo"}


def test_who_returns() -> None:
    trace = hashed_trace([1, 2], [3], [1, 2, 4], [1, 2, 4, 5], [1, 2, 6])
    leavings = leavings_of(cut_into_blocks(trace))
    assert [tuple(leaving) for leaving in leavings] == [
        (1, 2, 0, 1),  # after block 3
        (1, 1, 1, None),
        (2, 1, 2, 0),
        (3, 1, 3, None),
        (2, 1, 4, None),
    ]
    looked = look_at(cut_into_blocks(trace))
    assert looked["by turn"] == [
        {"what": "1", "requests": 2, "returned": 0.5},
        {"what": "2", "requests": 2, "returned": 0.5},
        {"what": "3", "requests": 1, "returned": 0},
    ]
    assert looked["by uses"][0] == {"from": 0, "to": 0, "blocks": 0.5, "uses": 0, "used_again": 0}


def test_constants_are_as_before_afterwards() -> None:
    before = default.MARGIN
    with changed({"MARGIN": 0.123}):
        assert default.MARGIN == 0.123
    assert before == default.MARGIN

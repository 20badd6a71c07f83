"""When requests are due."""

import statistics
from array import array
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.errors import TraceError
from anaphora.lab.load.arrivals import deal, of_trace, poisson
from anaphora.traces.request import TokenPrompt, Trace, TraceRequest


def trace_at(*times: float | None) -> Trace:
    requests = tuple(
        TraceRequest(line=number, arrival_s=time, prompt=TokenPrompt(array("I", [1])))
        for number, time in enumerate(times, 1)
    )
    return Trace(Path("t.jsonl"), "token-ids", None, len(requests), requests, ())


def test_a_poisson_process_has_exponential_gaps_of_its_rate_and_comes_again_from_its_seed() -> None:
    times = poisson(50.0, 200.0, seed="a")
    gaps = [later - earlier for earlier, later in pairwise([0.0, *times])]
    assert len(times) == pytest.approx(10_000, abs=5 * 100)  # five standard deviations, and the seed is fixed
    assert statistics.mean(gaps) == pytest.approx(1 / 50, rel=0.05)
    assert statistics.pstdev(gaps) == pytest.approx(1 / 50, rel=0.05)  # as large as the mean: exponential
    assert times == poisson(50.0, 200.0, seed="a") != poisson(50.0, 200.0, seed="b")
    assert 0 < times[0] < times[-1] < 200


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30).map(sorted), st.floats(0.01, 100))
def test_a_replay_keeps_the_traces_gaps_divided_by_the_speed(times: list[float], speed: float) -> None:
    schedule = of_trace(trace_at(*times), speed=speed, jitter_s=0, seed="s")
    assert [place for _, place in schedule] == list(range(len(times)))
    assert [due for due, _ in schedule] == pytest.approx([(time - times[0]) / speed for time in times])


@given(st.lists(st.sampled_from([0.0, 3.0, 6.0, 9.0]), min_size=1, max_size=40).map(sorted), st.integers())
def test_jitter_spreads_a_coarse_grid_within_its_ticks_and_loses_nothing(times: list[float], seed: int) -> None:
    schedule = of_trace(trace_at(*times), speed=1, jitter_s=3, seed=str(seed))
    assert sorted(place for _, place in schedule) == list(range(len(times)))
    assert [due for due, _ in schedule] == sorted(due for due, _ in schedule)
    assert all(0 <= due - (times[place] - times[0]) <= 3 for due, place in schedule)


def test_a_trace_without_times_is_refused() -> None:
    with pytest.raises(TraceError, match=r"does not tell when 1 of its 2 requests came"):
        of_trace(trace_at(0.0, None), speed=1, jitter_s=0, seed="s")


@given(st.integers(0, 50), st.integers(1, 7))
def test_dealing_gives_every_request_to_one_hand_in_order(size: int, hands: int) -> None:
    schedule = [(float(n), n) for n in range(size)]
    dealt = deal(schedule, hands)
    assert len(dealt) == hands
    assert sorted(due for hand in dealt for due in hand) == schedule
    assert all(hand == sorted(hand) for hand in dealt)

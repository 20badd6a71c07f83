"""The benchmark that holds simulated first-token times against a server's."""

import json
from pathlib import Path

import pytest
from benchmarks.sim import idle
from benchmarks.sim.comparison import compare, kept
from benchmarks.sim.load import Load, chats
from benchmarks.sim.validate import BENCH, IN_TURN, LIMITS, RESULTS, fit_of, table

from anaphora.sim.latency import LatencyModel

KEPT = json.loads((Path(RESULTS) / "validation.json").read_text())


def test_a_load_follows_from_its_seed() -> None:
    load = Load("some", rate=2, num_requests=50)
    made = chats(load)
    assert made == chats(load)
    assert made != chats(Load("some", rate=2, num_requests=50, seed=1))
    assert [chat.at_s for chat in made] == sorted(chat.at_s for chat in made)
    assert {chat.salt for chat in made} == {""}
    assert len({chat.salt for chat in chats(Load("some", rate=2, num_requests=50, cached=False))}) == 50


def test_even_gaps_are_even() -> None:
    assert [chat.at_s for chat in chats(Load("even", rate=0.25, num_requests=3, is_even=True))] == [0, 4, 8]


def test_the_kept_table_says_what_was_measured() -> None:
    assert (RESULTS / "table.md").read_text().strip() == table(KEPT)
    for load in KEPT["loads"]:
        equal = [one["measured_cached_tokens"] == one["predicted_cached_tokens"] for one in load["requests"]]
        assert sum(equal) == load["requests_with_equal_cached_tokens"]
        assert len(equal) == load["num_requests"]


def test_the_kept_fit_follows_from_the_kept_records() -> None:
    fit = fit_of([RESULTS / name for name in BENCH])
    assert fit.model.to_json() == pytest.approx(KEPT["latency"]["coefficients"], rel=1e-6, abs=1e-9)


def test_the_kept_predictions_follow_from_the_kept_model_and_prompts() -> None:
    model = LatencyModel.from_json(KEPT["latency"]["coefficients"])
    for load, measured, told in zip(IN_TURN, kept(RESULTS, KEPT["loads"]), KEPT["loads"], strict=True):
        again = compare(load, measured, model, **LIMITS)
        assert again["predicted"] == pytest.approx(told["predicted"], abs=0.01)
        assert again["measured"] == pytest.approx(told["measured"], abs=0.01)


def test_the_kept_table_of_idle_servers_says_what_was_measured() -> None:
    results = json.loads((RESULTS / "idle.json").read_text())
    assert (RESULTS / "idle.md").read_text().strip() == idle.table(results)
    assert {(row["arm"], row["gap_s"]) for row in results["rows"]} == {(a, g) for a in idle.ARMS for g in idle.GAPS_S}
    assert len({row["cached_tokens"] for row in results["rows"]}) == 1  # all had as much left to compute

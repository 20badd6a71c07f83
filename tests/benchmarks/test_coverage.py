"""The kept proofs that the lab's intervals hold, in virtual time and over sockets, and that they can be made again."""

import asyncio
import json
from typing import Any

import pytest
from benchmarks.lab import coverage, estimates, formula_choice, over_sockets
from benchmarks.lab.planted import Noise, Planted
from benchmarks.lab.planted_server import Serving

from anaphora.lab.calibration.server_process import timed_server
from anaphora.lab.experiments.switch import SwitchSettings
from anaphora.traces.records import Run

VIRTUAL = json.loads(coverage.OUT.read_text("utf-8"))
SOCKETS = json.loads(coverage.OUT_OF_SOCKETS.read_text("utf-8"))


@pytest.mark.parametrize("kept", [VIRTUAL, SOCKETS], ids=["virtual", "sockets"])
def test_the_kept_runs_cover_what_was_planted(kept: dict[str, Any]) -> None:
    for row in kept["coverage"]:
        low, high = min(row["num_covered"]), max(row["num_covered"])
        assert 0.89 * row["num_runs"] <= low <= high <= 0.99 * row["num_runs"], row
        assert row["median_width_over_theory"] <= 2, row


@pytest.mark.parametrize("kept", [VIRTUAL, SOCKETS], ids=["virtual", "sockets"])
def test_the_kept_runs_raise_few_false_alarms_and_find_five_per_cent_at_a_noise_of_two(kept: dict[str, Any]) -> None:
    for row in kept["effects"]:
        if row["planted_effect_percent"] == 0:
            assert max(row["num_called"]) <= 0.1 * row["num_runs"], row
        elif row["noise"] in ("in proportion, 1%", "in proportion, 2%"):
            assert min(row["num_called"]) >= 0.8 * row["num_runs"], row


def test_the_same_seeds_give_the_same_rows() -> None:
    first = coverage.coverage_of([0, 1], coverage.NOISES[0])
    assert first == coverage.coverage_of([0, 1], coverage.NOISES[0])
    rows = coverage.coverage_rows(first, coverage.NOISES[0], 2)
    assert [row["num_covered"] for row in rows] == [
        [int(one.covers) for one in pair] for pair in zip(*first, strict=True)
    ]
    assert [row["parameter"] for row in rows] == [row["parameter"] for row in VIRTUAL["coverage"][: len(rows)]]


def test_only_a_term_that_noise_does_not_choose_keeps_every_interval() -> None:
    kept = json.loads(formula_choice.OUT.read_text("utf-8"))["rows"]
    worst: dict[str, float] = {}
    for row in kept:
        worst[row["rule"]] = min(worst.get(row["rule"], 100.0), *row["percent_covered"].values())
    assert set(worst) == set(formula_choice.RULES)
    assert worst.pop("always a term") > 92
    assert all(percent < 91 for percent in worst.values())


def test_the_rules_take_the_product_as_they_say() -> None:
    for product, rates in ((0.0, (100, 0, 0, 0)), (40.0, (100, 0, 100, 100))):
        rows = formula_choice.rows_of(product, 2)
        assert [row["rule"] for row in rows] == list(formula_choice.RULES)
        assert tuple(row["percent_with_product"] for row in rows) == rates


def test_a_planted_gain_is_the_reduction_of_the_switch() -> None:
    planted = Planted().gaining(0.05)
    off, on = planted.ttft_ms(1530, 0), planted.ttft_ms(10, 1520)
    assert 1 - on / off == pytest.approx(0.05)


def test_the_planted_server_caches_whole_blocks_of_a_salt_and_takes_the_planted_time() -> None:
    serving = Serving()
    serving.plant(Planted(10.0, 100.0, 1.0, 0.0, 0.0), Noise(), seed=1)
    words = [f"w{n}" for n in range(32)]
    cached, time_ms = zip(*(serving.serve(words, "a") for _ in range(2)), strict=True)
    assert cached == (0, 16)
    assert time_ms == pytest.approx((13.2, 11.616))
    assert serving.serve([*words, "more"], "a")[0] == 32
    assert serving.serve(words, "b")[0] == serving.serve(words[:15], "a")[0] == 0
    assert (serving.queried, serving.cached) == (32 * 3 + 33 + 15, 48)


def test_a_run_over_sockets_hits_by_the_planted_rule_and_takes_no_less_than_planted() -> None:
    planted = Planted(1.0, 1.0, 0.1, 0.0, 0.0)
    settings = SwitchSettings(prefix_tokens=40, num_questions=2, output_tokens=1)

    async def go() -> Run:
        async with timed_server(over_sockets.SERVER) as base:
            return await over_sockets.run(base, planted, (settings,), seed=3, number=0)

    records = asyncio.run(go()).requests
    assert [record.error for record in records] == [None] * len(records)
    on = [record for record in records if record.arm == "on" and record.experiment == "switch"]
    assert [estimates.tokens_of(record)[1] for record in on] == [record.predicted_cached_tokens for record in on]
    assert on[-1].predicted_cached_tokens == 32
    for record in records:
        assert record.first_token_ns is not None
        assert (record.first_token_ns - record.sent_ns) / 1e6 > 0.8 * planted.ttft_ms(*estimates.tokens_of(record))

"""Costs and named groups of two runs: their quantities, and the two at a glance."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from anaphora.lab.comparison.compare import compare, judge
from anaphora.lab.comparison.conditions import Condition
from anaphora.lab.comparison.difference import Difference
from anaphora.lab.comparison.overview import side_by_side
from anaphora.lab.comparison.quantities import places, quantities_of
from anaphora.lab.comparison.tables import differences_tables
from anaphora.lab.experiments.base import ExperimentSettings
from anaphora.lab.experiments.costs import CostsSettings
from anaphora.lab.experiments.scenarios import ScenariosSettings
from anaphora.lab.options import BenchOptions
from anaphora.lab.results import results_of
from anaphora.lab.token_costs import ALL_TERMS
from anaphora.traces.records import Run
from tests.lab.fake_bench import bench
from tests.lab.fakes import FakeServing

COSTS = CostsSettings(prefixes=(0, 64, 256), endings=(32, 128, 320), steps=10, repeats=6)
SCENARIOS = ScenariosSettings(context_tokens=200, requests=7, output_tokens=2, only=("assistant", "documents"))


def run_of(folder: Path, settings: ExperimentSettings, *, seed: int = 0, **serving: float) -> Run:
    """Times jitter by some milliseconds, in another way for each seed."""
    folder.mkdir()
    noise = np.random.default_rng(seed).normal(0, 1.5, 1000)
    fake = FakeServing(jitter=lambda n: float(noise[n]), **serving)  # type: ignore[arg-type]
    return bench(folder, BenchOptions(experiments=(settings,)), main=fake, run_id=f"r{seed}")[0]


def changes(a: Run, b: Run) -> dict[str, Difference]:
    return {one.full_name: one for one in compare(a, b).differences}


def test_the_terms_of_the_costs_are_those_of_the_report_and_their_change_is_found(tmp_path: Path) -> None:
    a = run_of(tmp_path / "a", COSTS, prefill_ms=2.0)
    b = run_of(tmp_path / "b", COSTS, prefill_ms=2.5, seed=1)
    found = changes(a, b)
    for run, side in ((a, "a"), (b, "b")):
        terms = results_of(run)["experiments"]["costs"]["two_variable"]["terms"]
        for name in ALL_TERMS:
            assert getattr(found[f"costs.{name}"], side) == pytest.approx(terms[name]["value"], abs=1e-4), name
    slower = found["costs.computed_ms_per_ktoken"]
    assert slower.is_chance is False
    assert slower.change_interval is not None
    assert slower.change_interval.low < 500 < slower.change_interval.high
    assert found["costs.fixed_ms"].is_chance is True
    assert found["costs.256-128.ttft_on_p50"].change > 0
    assert not any("staircase" in name for name in found)
    (verdict,) = judge(compare(a, b), [Condition.parse("costs.computed_ms_per_ktoken > +5%")])
    assert verdict.met_by == ("costs.computed_ms_per_ktoken",)
    assert "costs" in [table.title for table in differences_tables(compare(a, b))]


def test_the_costs_of_requests_that_do_not_separate_them_are_no_figures(tmp_path: Path) -> None:
    run = run_of(tmp_path / "a", COSTS)
    one_place = {place: records for place, records in places(run).items() if place == "costs.64-32"}
    assert not {name for _, name in quantities_of(one_place)} & set(ALL_TERMS)


def test_named_groups_are_compared_by_their_names(tmp_path: Path) -> None:
    a = run_of(tmp_path / "a", SCENARIOS)
    found = changes(a, run_of(tmp_path / "b", SCENARIOS, seed=1, fixed_ms=60.0))
    assert {one.place for one in found.values()} == {"scenarios.assistant", "scenarios.documents"}
    assert found["scenarios.assistant.ttft_on_p50"].is_chance is False
    assert found["scenarios.documents.hit_rate_on"].change == 0


def test_two_runs_at_a_glance(tmp_path: Path) -> None:
    costs = results_of(run_of(tmp_path / "c", COSTS, prefill_ms=2.0))
    labels = {label: (ours, theirs) for label, ours, theirs in side_by_side(costs, costs).rows}
    ours, theirs = labels["costs: 1,000 computed (ms)"]
    assert ours == theirs
    assert ours.startswith(("1,9", "2,0"))
    assert labels["costs: 1,000 computed behind 1,000 cached, more (ms)"][0] != "–"
    assert labels["costs: steps of cached tokens"] == ("16", "16")
    both = results_of(run_of(tmp_path / "s", SCENARIOS))
    fewer = dataclasses.replace(SCENARIOS, only=("assistant",))
    one = results_of(run_of(tmp_path / "t", fewer))
    labels = {label: (ours, theirs) for label, ours, theirs in side_by_side(both, one).rows}
    assert " → " in labels["scenarios: assistant, median TTFT off → on (ms)"][1]
    assert labels["scenarios: documents, from the cache"][1] == "–"
    assert not any(label.startswith("scenarios") for label, *_ in side_by_side(both, costs).rows)

"""The cost experiment on a target whose costs are known, and what it says where it cannot tell."""

import asyncio
from pathlib import Path

import pytest

from anaphora.errors import ConfigError
from anaphora.lab.experiments.costs import CostsSettings
from anaphora.lab.experiments.two_variable import without_strays
from anaphora.lab.options import BenchOptions
from anaphora.lab.planning import make_plan
from anaphora.lab.report import write_report
from anaphora.lab.report.costs import steps_in_words
from anaphora.lab.report.presentations import answer, tables_of
from anaphora.lab.report.token_costs import costs_sentence, costs_table
from anaphora.lab.results import results_of
from anaphora.lab.token_costs import PRODUCT, TERMS, Point
from tests.lab.fake_bench import Listener, bench
from tests.lab.fakes import FakeServing, FakeTarget

FEW = BenchOptions(experiments=(CostsSettings(prefixes=(0, 64, 256), endings=(32, 128), steps=10, repeats=3),))


@pytest.mark.parametrize("arms", ["salt", "nonce"])
def test_planted_costs_and_steps_are_found(tmp_path: Path, arms: str) -> None:
    serving = FakeServing(honours_salt=arms == "salt")
    run, plan = bench(tmp_path, FEW, main=serving)
    assert plan.proof.mechanism == arms
    found = results_of(run)["experiments"]["costs"]
    terms = {name: term["value"] for name, term in found["two_variable"]["terms"].items()}
    assert terms["fixed_ms"] == pytest.approx(30, abs=1e-4)
    assert terms["computed_ms_per_ktoken"] == pytest.approx(2000, abs=1e-3)
    assert terms["cached_ms_per_ktoken"] == pytest.approx(0, abs=1e-3)
    assert terms["computed_squared_ms_per_ktoken2"] == pytest.approx(0, abs=1e-2)
    cells = found["two_variable"]["cells"]
    assert {cell["num_requests"] for cell in cells} == {3}
    assert {cell["cell"] for cell in cells} == {f"{p} + {e}" for p in (0, 64, 256) for e in (32, 128)}
    assert all(cell["cached_tokens"] < 16 for cell in cells if cell["cell"].startswith("0 "))
    stairs = found["staircase"]
    assert stairs["step_tokens"] == 16
    assert stairs["step_ms"] == pytest.approx(32)
    assert len({row["cached_tokens"] for row in stairs["rows"]}) in (3, 4)
    lengths = [row["prompt_tokens"] for row in stairs["rows"]]
    assert len(set(lengths)) == len(lengths) == 10  # a repeat hits no more than the first time did
    hit = found["hit_rate_percent"]
    assert hit["usage"] == hit["metrics"] == hit["predicted"]


def test_the_staircase_spans_two_blocks_of_whatever_size_the_target_has(tmp_path: Path) -> None:
    """vLLM's blocks on a CPU have 128 tokens."""
    run, _ = bench(tmp_path, FEW, main=FakeServing(block_size=128))
    assert results_of(run)["experiments"]["costs"]["staircase"]["step_tokens"] == 128


def test_a_cache_without_blocks_has_no_staircase(tmp_path: Path) -> None:
    listener = Listener()
    run, _ = bench(tmp_path, FEW, listener, main=FakeServing(block_size=1))
    assert not results_of(run)["experiments"]["costs"]["staircase"]["rows"]
    assert any("no blocks for a staircase" in note for note in listener.notes)


@pytest.mark.draws
def test_every_part_is_in_the_report(tmp_path: Path) -> None:
    bench(tmp_path, FEW, main=FakeServing(jitter=lambda n: n * 7 % 5))
    results = write_report(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"costs.csv", "staircase.csv", "figure-costs.png", "figure-staircase.svg"} <= names
    assert "every 1,000 computed prompt tokens" in answer(results)
    assert "Cached tokens come in steps of 16" in answer(results)
    assert len(tables_of(results)) == 3
    statuses = {check["name"]: check["status"] for check in results["trust"]}
    assert statuses["costs fit"] == "ok"
    assert statuses["on requests hit"] == "ok"
    assert statuses["off requests missed"] == "unknown"


@pytest.mark.draws
def test_without_hits_nothing_is_fitted(tmp_path: Path) -> None:
    run, _ = bench(tmp_path, FEW, main=FakeServing(caching=False))
    results = results_of(run)
    assert results["experiments"]["costs"]["two_variable"] is None
    assert results["experiments"]["costs"]["staircase"]["step_tokens"] is None
    assert "no fit" in answer(results)
    write_report(tmp_path)


def test_a_request_that_was_held_up_is_left_out_and_counted(tmp_path: Path) -> None:
    run, plan = bench(tmp_path, FEW, main=FakeServing())
    number = 5 + next(
        i for i, trial in enumerate(plan.trials) if trial.label == "256 + 32" and trial.phase == "measured"
    )
    (tmp_path / "b").mkdir()
    slow, _ = bench(tmp_path / "b", FEW, main=FakeServing(jitter=lambda n: 5000.0 if n == number + 1 else 0.0))
    usual, held_up = (results_of(one)["experiments"]["costs"]["two_variable"] for one in (run, slow))
    assert (usual["num_strays"], held_up["num_strays"]) == (0, 1)
    assert held_up["terms"]["fixed_ms"]["value"] == pytest.approx(30, abs=1e-4)


@pytest.mark.draws
def test_the_figure_shows_a_held_up_request_as_one_that_is_in_no_fit(tmp_path: Path) -> None:
    bench(tmp_path, FEW, main=FakeServing(jitter=lambda n: 5000.0 if n == 40 else 0.0))
    results = write_report(tmp_path)
    assert results["experiments"]["costs"]["two_variable"]["num_strays"] == 1
    assert "held up, in no fit" in (tmp_path / "report.html").read_text("utf-8")


def test_residuals_are_told_in_the_order_of_cached_and_computed_tokens(tmp_path: Path) -> None:
    run, _ = bench(tmp_path, FEW, main=FakeServing())
    cells = results_of(run)["experiments"]["costs"]["two_variable"]["cells"]
    assert [cell["cell"] for cell in cells] == ["0 + 32", "0 + 128", "64 + 32", "64 + 128", "256 + 32", "256 + 128"]


@pytest.mark.parametrize(("scatter", "num_left"), [(0.02, 6), (0.2, 7)])
def test_twice_as_long_is_held_up_only_where_times_scatter_less(scatter: float, num_left: int) -> None:
    usual = [100 * (1 + scatter * share) for share in (-1.5, -1, -0.5, 0.5, 1, 1.5)]
    points = [Point("cell", 256, 0, time) for time in (*usual, 205.0)]
    assert len(without_strays(points)) == num_left


def test_failed_requests_are_in_no_fit(tmp_path: Path) -> None:
    run, _ = bench(tmp_path, FEW, main=FakeServing(fails=lambda n: "broken" if n in (12, 20) else None))
    found = results_of(run)["experiments"]["costs"]
    assert found["num_failed"] == 2
    assert found["two_variable"]["terms"]["fixed_ms"]["value"] == pytest.approx(30, abs=1e-4)


@pytest.mark.parametrize(
    "changes",
    [
        {"prefixes": (64,)},
        {"prefixes": (64, 64)},
        {"prefixes": (-1, 64)},
        {"endings": (8, 64)},
        {"endings": ()},
        {"repeats": 0},
        {"steps": -1},
    ],
)
def test_settings_that_could_not_be_measured(changes: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        CostsSettings(**changes)  # type: ignore[arg-type]


def test_lengths_beyond_the_context_are_left_out_aloud() -> None:
    async def plan(max_model_len: int) -> list[str]:
        target, notes = FakeTarget(FakeServing()), list[str]()
        await make_plan(FEW, target, target, run_id="r", max_model_len=max_model_len, note=notes.append)
        return notes

    assert any(note.startswith("256 + 128 tokens do not fit") for note in asyncio.run(plan(400)))
    with pytest.raises(ConfigError, match="too few lengths fit"):
        asyncio.run(plan(140))


@pytest.mark.parametrize(
    ("squared", "said"),
    [(7.2, " plus 7.2 ms times the square"), (-7.2, " minus 7.2 ms times the square"), (0.01, "(–), and every")],
)
def test_the_square_is_told_with_its_sign(squared: float, said: str) -> None:
    terms = {name: {"value": 1.0, "interval": None} for name in TERMS}
    terms["computed_squared_ms_per_ktoken2"]["value"] = squared
    assert said in costs_sentence({"terms": terms})


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ({"low": 0.5, "high": 1.5}, "1,000 tokens computed behind 1,000 cached ones pay 1.0 ms (0.5 to 1.5) more"),
        ({"low": -0.5, "high": 2.5}, "looking at cached ones is lost in the noise: 1.0 ms (−0.5 to 2.5)"),
        (None, "pay 1.0 ms (–) more"),
    ],
)
def test_what_new_tokens_pay_for_cached_ones_is_told_if_it_is_more_than_noise(
    bounds: dict[str, float] | None, said: str
) -> None:
    terms = {name: {"value": 1.0, "interval": None} for name in TERMS}
    assert said not in costs_sentence({"terms": terms})
    assert said in costs_sentence({"terms": {**terms, PRODUCT: {"value": 1.0, "interval": bounds}}})


def test_the_report_says_why_the_formula_has_its_terms_and_what_the_shorter_one_says(tmp_path: Path) -> None:
    run, _ = bench(tmp_path, FEW, main=FakeServing(jitter=lambda n: n * 7 % 5))
    fit = results_of(run)["experiments"]["costs"]["two_variable"]
    assert fit["formula"].endswith("+ d · computed · cached")
    assert fit["product_ms_per_ktoken2"] == fit["terms"][PRODUCT]["interval"]
    note = costs_table(fit).note
    assert "whatever it comes to" in note
    assert f"without it: R² = {fit['without_product']['r2']:.4f}; every 1,000 cached tokens" in note
    worse = {**fit["without_product"], "aicc_more": 12.0}
    assert "criterion is higher by 12.0: worse" in costs_table({**fit, "without_product": worse}).note
    better = {**fit["without_product"], "aicc_more": -2.5, "r2": None}
    assert "criterion is lower by 2.5: it would do as well" in costs_table({**fit, "without_product": better}).note


def test_a_cost_that_noise_hides_is_not_told_as_one() -> None:
    terms = {name: {"value": -1.0, "interval": {"low": -9.0, "high": 7.0}} for name in TERMS}
    assert costs_sentence({"terms": terms}) == (
        "What a computed prompt token costs is lost in the noise: every 1,000 of them −1.0 ms (−9.0 to 7.0 at 95%)."
    )


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ({"low": -3.2, "high": 2.8}, "lost in the noise: 1.0 ms (−3.2 to 2.8 at 95%)"),
        ({"low": 0.4, "high": 1.6}, "one step more takes 1.0 ms (0.4 to 1.6 at 95%) off"),
        (None, "one step more takes 1.0 ms"),
    ],
)
def test_what_a_step_saves_is_told_only_if_it_is_more_than_noise(bounds: dict[str, float] | None, said: str) -> None:
    assert said in steps_in_words({"step_tokens": 16, "step_ms": 1.0, "step_ms_interval": bounds})

"""Two runs side by side: exact figures, what is refused, and how often chance is called a change."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from anaphora.cli.main import run as command
from anaphora.errors import ConfigError
from anaphora.lab.comparison.compare import compare, comparison_as_json, judge
from anaphora.lab.comparison.conditions import Condition
from anaphora.lab.comparison.difference import Difference, difference
from anaphora.lab.comparison.quantities import places, quantities_of
from anaphora.lab.comparison.tables import differences_tables, verdict
from anaphora.traces.records import Run
from tests.lab.comparison.runs import gradient_run, with_settings


def by_name(a: Run, b: Run) -> dict[str, Difference]:
    return {one.full_name: one for one in compare(a, b).differences}


def test_every_figure_of_both_runs_and_its_change() -> None:
    found = by_name(gradient_run(seed=1), gradient_run(seed=2, factor=1.5))
    slow = found["gradient.200.ttft_on_p50"]
    assert (slow.a, slow.b, slow.change) == pytest.approx((14, 21, 7))
    assert slow.relative_percent == pytest.approx(50)
    assert slow.relative_interval is not None
    assert (slow.relative_interval.low, slow.relative_interval.high) == pytest.approx((50, 50))
    assert (slow.num_a, slow.num_b, slow.is_chance, verdict(slow)) == (8, 8, False, "slower")
    assert found["gradient.slope_on"].a == pytest.approx(20)
    assert found["gradient.slope_on"].b == pytest.approx(30)
    assert found["gradient.intercept_off"].a == pytest.approx(20)
    assert found["gradient.slope_reduction"].change == pytest.approx(-5)  # of 200: from 20 to 30
    rate = found["gradient.100.hit_rate_on"]
    assert (rate.a, rate.b, rate.relative_percent, rate.is_chance) == (96, 96, None, True)
    assert verdict(rate) == "the same"
    assert verdict(found["gradient.200.ttft_reduction"]) == "lower"
    assert "gradient.100.ttft_on_p90" not in found  # eight samples do not reach that far
    assert not any("e2e" in name for name in found)  # one token: E2E is TTFT


KEYS = (("gradient.200", "ttft_on_p50"), ("gradient", "slope_on"), ("gradient", "slope_reduction"))


@pytest.mark.parametrize("key", KEYS)
def test_nothing_but_noise_is_rarely_called_a_change(key: tuple[str, str]) -> None:
    alarms = 0
    for seed in range(40):
        a, b = (quantities_of(places(gradient_run(seed=2 * seed + n, noise=0.03)))[key] for n in (0, 1))
        alarms += difference(a, b, seed=seed).is_chance is False
    assert alarms <= 6


def test_comparing_again_gives_the_same_intervals() -> None:
    a, b = gradient_run(seed=1, noise=0.05), gradient_run(seed=2, noise=0.05)
    assert compare(a, b, seed=4) == compare(a, b, seed=4)
    assert compare(a, b, seed=4) != compare(a, b, seed=5)


def test_too_few_samples_are_no_verdict() -> None:
    found = by_name(gradient_run(seed=1, repeats=4), gradient_run(seed=2, factor=3, repeats=8))
    few = found["gradient.200.ttft_on_p50"]
    assert (few.is_chance, few.change_interval, few.relative_interval, verdict(few)) == (None, None, None, "too few")
    assert few.relative_percent == pytest.approx(200)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run: with_settings(run, mechanism="nonce"), "“off” was a cache_salt"),
        (
            lambda run: dataclasses.replace(
                run, header=dataclasses.replace(run.header, target={**run.header.target, "model": "other"})
            ),
            "B other",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused_unless_asked_for_anyway(change: Callable[[Run], Run], message: str) -> None:
    a, b = gradient_run(seed=1), change(gradient_run(seed=2))
    with pytest.raises(ConfigError, match=message):
        compare(a, b)
    comparison = compare(a, b, anyway=True)
    assert message in comparison.remarks[0]
    assert comparison.differences


def test_other_lengths_are_left_out_aloud() -> None:
    a, b = gradient_run(seed=1, lengths=(100, 200)), gradient_run(seed=2, lengths=(200, 400))
    comparison = compare(a, b)
    assert comparison.left_out == ("gradient.100: only in A", "gradient.400: only in B")
    assert {one.place for one in comparison.differences} == {"gradient.200"}  # one length is no line
    with pytest.raises(ConfigError, match=r"nothing in common that could be compared: gradient.100: only in A; "):
        compare(gradient_run(seed=1, lengths=(100,)), gradient_run(seed=2, lengths=(200,)))


def test_prompts_and_answers_of_another_size_are_left_out_aloud() -> None:
    a, b = gradient_run(seed=1, lengths=(100, 200, 400)), gradient_run(seed=2, lengths=(100, 200, 400))
    longer = [
        dataclasses.replace(r, usage={**(r.usage or {}), "prompt_tokens": 210}) if r.group == 200 else r
        for r in b.requests
    ]
    chattier = [dataclasses.replace(r, max_tokens=9) if r.group == 400 else r for r in longer]
    comparison = compare(a, dataclasses.replace(b, requests=tuple(chattier)))
    assert comparison.left_out == (
        "gradient.200: its prompts have 200 tokens in A and 210 in B",
        "gradient.400: its answers have up to 1 tokens in A and up to 9 in B",
    )


def test_what_else_differs_is_said() -> None:
    a, b = gradient_run(seed=1), gradient_run(seed=2)
    assert compare(a, a).remarks == ("A and B are the same run",)
    busy = dataclasses.replace(
        b,
        header=dataclasses.replace(
            b.header,
            environment={**b.header.environment, "num_cpus": 4, "load_average": [3.5, 0, 0]},
            num_planned_requests=99,
        ),
    )
    assert compare(a, busy).remarks == (
        "number of processors: 2 in A, 4 in B",
        "the machine was busy when B began",
        "B was cut short: 48 of 99 requests",
    )


def test_json_and_tables_say_the_same() -> None:
    comparison = compare(gradient_run(seed=1), gradient_run(seed=2, factor=1.5))
    verdicts = judge(comparison, [Condition.parse("ttft_on_p50 > +5%"), Condition.parse("slope_on < -5%")])
    stored = comparison_as_json(comparison, verdicts)
    assert [one["met_by"] for one in stored["conditions"]] == [
        tuple(f"gradient.{length}.ttft_on_p50" for length in (100, 200, 400)),
        (),
    ]
    slow = next(one for one in stored["differences"] if one["name"] == "gradient.200.ttft_on_p50")
    assert (slow["relative_percent"], slow["is_chance"], slow["relative_interval"]["level"]) == (50, False, 0.95)
    tables = differences_tables(comparison)
    assert [table.title for table in tables] == ["gradient 100", "gradient 200", "gradient 400", "gradient"]
    assert ("ttft_on_p50", "14.0", "21.0", "+50.0%", "+50.0 to +50.0", "8", "slower") in tables[1].rows
    assert not [row for table in tables for row in table.rows if row[0].startswith("failed")]


def test_a_load_run_is_told_from_a_folder_without_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "load.jsonl").write_text("", "utf-8")
    assert command(["compare", str(tmp_path), str(tmp_path)]) == 2
    assert "holds a run of `anaphora bench load`" in capsys.readouterr().err

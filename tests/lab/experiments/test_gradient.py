"""The gradient up to the context, its two-variable fit, and from where caching pays."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from anaphora.errors import ConfigError
from anaphora.lab.experiments.gradient import GradientSettings, pays
from anaphora.lab.options import BenchOptions
from anaphora.lab.planning import make_plan
from anaphora.lab.report.gradient import pays_in_words
from anaphora.lab.results import results_of
from tests.lab.fake_bench import bench
from tests.lab.fakes import FakeServing, FakeTarget


def lengths_planned(max_model_len: int | None) -> list[int]:
    options = BenchOptions(experiments=(GradientSettings(lengths="max", repeats=1),))
    target = FakeTarget(FakeServing())
    made = make_plan(options, target, target, run_id="r", max_model_len=max_model_len, note=lambda _: None)
    return sorted({trial.group for trial in asyncio.run(made).trials})


@pytest.mark.parametrize(
    ("max_model_len", "lengths"),
    [(2048, [256, 512, 1024, 1951]), (1200, [256, 512, 1103]), (1130, [256, 512, 1033]), (200, [103])],
)
def test_up_to_the_context(max_model_len: int, lengths: list[int]) -> None:
    assert lengths_planned(max_model_len) == lengths


def test_a_context_too_small_or_unknown_is_told() -> None:
    with pytest.raises(ConfigError, match="does not tell its context"):
        lengths_planned(None)
    with pytest.raises(ConfigError, match="no prefix length fits"):
        lengths_planned(100)


def test_both_arms_together_separate_computed_from_cached(tmp_path: Path) -> None:
    options = BenchOptions(experiments=(GradientSettings(lengths=(64, 128, 256), repeats=6),))
    gradient = results_of(bench(tmp_path, options, main=FakeServing())[0])["experiments"]["gradient"]
    terms = {name: term["value"] for name, term in gradient["two_variable"]["terms"].items()}
    assert terms["fixed_ms"] == pytest.approx(30, abs=1e-4)
    assert terms["computed_ms_per_ktoken"] == pytest.approx(2000, abs=1e-2)
    for row in gradient["rows"]:
        assert row["saved_ms_paired"]["median"] == row["saved_ms"]
        assert row["saved_ms_paired"]["num_pairs"] == 6
    assert gradient["pays"]["from_prompt_tokens"] == gradient["rows"][0]["prompt_tokens"]
    assert gradient["pays"]["not_shown_at_prompt_tokens"] is None


def rows(*lows: float | None) -> list[dict[str, Any]]:
    return [
        {
            "prompt_tokens": 100 * number,
            "saved_ms_paired": {"interval": None if low is None else {"low": low, "high": 9.0, "level": 0.95}},
        }
        for number, low in enumerate(lows, 1)
    ]


@pytest.mark.parametrize(
    ("lows", "start", "before", "words"),
    [
        ((1.0, 2.0, 3.0), 100, None, "at every length measured, the shortest of 100"),
        ((-1.0, 2.0, 3.0), 200, 100, "from 200 prompt tokens on; at 100 chance may explain the difference"),
        ((1.0, -2.0, 3.0), 300, 200, "from 300 prompt tokens on"),
        ((1.0, 2.0, 0.0), None, 300, "no measured length shows a gain"),
        ((None, 2.0), 200, None, "at every length measured, the shortest of 200"),
        ((None,), None, None, "cannot be told"),
        ((), None, None, "cannot be told"),
    ],
)
def test_from_where_on_caching_pays(
    lows: tuple[float | None, ...], start: int | None, before: int | None, words: str
) -> None:
    found = pays(rows(*lows))
    assert (found["from_prompt_tokens"], found["not_shown_at_prompt_tokens"]) == (start, before)
    assert words in pays_in_words(found)

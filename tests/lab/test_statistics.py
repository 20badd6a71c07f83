"""Cases 17 and 18, the seed documents' table, and what intervals promise."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from anaphora.lab import statistics
from anaphora.lab.experiments.lines import fit_rows, slope_reduction
from anaphora.lab.experiments.summary import summarise
from anaphora.lab.statistics import Interval
from anaphora.lab.timings import ttft_ms
from tests.lab.records import record

CASES = Path(__file__).parents[1] / "data" / "cases"
SEEDS = [(353, 111.4, 36.7), (681, 168.7, 43.0), (1337, 279.4, 45.1), (2649, 574.0, 56.1), (3961, 852.7, 62.8)]


def rows_of(name: str) -> list[dict[str, str]]:
    with next(CASES.glob(name)).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_seeds_table_fits_as_it_is_and_not_as_it_was_printed() -> None:
    lines = fit_rows([{"prompt_tokens": n, "off_ttft_ms": off, "on_ttft_ms": on} for n, off, on in SEEDS])
    off, on = lines["off"], lines["on"]
    assert off is not None
    assert on is not None
    assert f"{off.slope_ms_per_ktoken:.2f} {off.intercept_ms:.2f} {off.r2:.4f}" == "207.60 24.35 0.9981"
    assert f"{on.slope_ms_per_ktoken:.2f} {on.intercept_ms:.2f} {on.r2:.4f}" == "6.94 36.27 0.9745"
    assert f"{slope_reduction(lines):.2f}" == "96.65"
    assert off.intercept_interval is not None
    assert off.intercept_interval.low < on.intercept_ms < off.intercept_interval.high


def test_published_tables_come_out_as_published_elsewhere() -> None:
    expected = json.loads((CASES / "18-stats-published-tables" / "expected.json").read_text("utf-8"))
    table = [
        {
            "prompt_tokens": float(r["prefix_tokens"]),
            "off_ttft_ms": float(r["cold_ms"]),
            "on_ttft_ms": float(r["warm_ms"]),
        }
        for r in rows_of("18-*/gradient.csv")
    ]
    lines = fit_rows(table)
    for name, theirs in (("off", "cold"), ("on", "warm"), ("saved", "saved")):
        line, right = lines[name], expected["gradient"][theirs]
        assert line is not None
        assert line.slope_ms_per_ktoken / 1000 == pytest.approx(right["slope_ms_per_token"], abs=1e-5)
        assert line.intercept_ms == pytest.approx(right["intercept_ms"], abs=0.01)
        assert line.r2 == pytest.approx(right["r2"], abs=1e-5)
    lines_of_pairs = next(CASES.glob("18-*/onoff.csv")).read_text("utf-8").splitlines()[1:]
    for text, right in zip(lines_of_pairs, expected["onoff"], strict=True):
        _, off, on, _ = text.rsplit(",", 3)  # some names hold a comma
        reduction = statistics.reduction_percent(float(off), float(on))
        assert round(reduction or 0.0, 1) == right["reduction_pct"]  # negative where caching was slower


def test_failed_unmeasured_and_unstreamed_answers_are_in_no_statistic() -> None:
    expected = json.loads((CASES / "17-stats-warmup-and-unmeasured" / "expected.json").read_text("utf-8"))
    records = [
        record(
            ttft_ms=float(row["ttft_ms"]) or None,
            e2e_ms=float(row["e2e_ms"]),
            streamed=row["stream"] == "1",
            error=None if row["ok"] == "1" else "failed",
        )
        for row in rows_of("17-*/results.csv")
    ]
    summary = summarise(records)
    assert summary["num_requests"] == 40
    assert (summary["num_failed"], summary["num_without_token"], summary["num_not_streamed"]) == (3, 2, 1)
    ttfts = [value for r in records if (value := ttft_ms(r)) is not None]
    for values, right in ((ttfts, expected["measured"]), (ttfts[4:], expected["without_first_wave"])):
        assert len(values) == right["n"]
        assert float(np.mean(values)) == pytest.approx(right["mean"], abs=0.01)
        for fraction, name in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99")):
            assert statistics.quantile(values, fraction) == pytest.approx(right[name], abs=0.01)
    assert statistics.leading_outliers(ttfts) == 4
    assert summary["ttft_ms_median"] == 235.0


def test_few_samples_give_their_range_and_its_true_level() -> None:
    assert statistics.median_interval([3.0, 1.0, 2.0, 5.0, 4.0]) == Interval(1.0, 5.0, 0.9375)
    assert statistics.median_interval([3.0, 1.0]) == Interval(1.0, 3.0, 0.5)
    assert statistics.median_interval([3.0]) is None
    assert statistics.reduction_interval([100.0, 200.0], [50.0, 20.0], seed=0) == Interval(50.0, 90.0, 0.5)
    assert (statistics.median([]), statistics.quantile([], 0.5), statistics.leading_outliers([])) == (None, None, 0)


@pytest.mark.parametrize("num_samples", [6, 50, 3000])
def test_independent_samples_of_one_distribution_may_differ_by_nothing(num_samples: int) -> None:
    values = [10.0 + n % 7 for n in range(num_samples)]
    found = statistics.independent_reduction_interval(values, values, seed=0)
    assert found is not None
    assert found.low <= 0 <= found.high
    halved = statistics.independent_reduction_interval(values, [value / 2 for value in values], seed=0)
    assert halved is not None
    assert found.high < halved.low <= 50 <= halved.high
    assert statistics.independent_reduction_interval(values[:5], values, seed=0) is None
    assert statistics.independent_reduction_interval(values, values[:5], seed=0) is None


def test_resampling_piece_by_piece_gives_the_same_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    off, on = [float(n % 11) + 5 for n in range(40)], [float(n % 5) + 1 for n in range(33)]
    at_once = statistics.independent_reduction_interval(off, on, seed=3)
    monkeypatch.setattr(statistics, "_MOST_DRAWN", 1000)
    assert statistics.independent_reduction_interval(off, on, seed=3) == at_once


@pytest.mark.parametrize("num_samples", [6, 7, 8, 15, 40])
@pytest.mark.parametrize("skewed", [False, True])
def test_the_median_s_interval_covers_whatever_the_distribution(num_samples: int, skewed: bool) -> None:
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(400):
        values = rng.exponential(5, num_samples) if skewed else rng.normal(0, 5, num_samples)
        interval = statistics.median_interval(values.tolist())
        assert interval is not None
        covered += interval.low <= (5 * np.log(2) if skewed else 0) <= interval.high
    assert 0.92 * 400 <= covered <= 0.98 * 400


def test_reductions_are_seeded_and_cover() -> None:
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(200):
        off, on = rng.normal(100, 5, 9).tolist(), rng.normal(40, 2, 9).tolist()
        interval = statistics.reduction_interval(off, on, seed=1)
        assert interval == statistics.reduction_interval(off, on, seed=1)
        assert interval is not None
        covered += interval.low <= 60 <= interval.high
    assert 0.89 * 200 <= covered <= 0.99 * 200


def test_lines_that_cannot_be_drawn() -> None:
    assert statistics.fit_line([100], [5]) is None
    assert statistics.fit_line([100, 100], [5, 6]) is None
    two = statistics.fit_line([1000, 2000], [5, 7])
    assert two is not None
    assert (two.slope_ms_per_ktoken, two.intercept_ms, two.slope_interval, two.at(3000)) == (2, 3, None, 9)
    flat = statistics.fit_line([1000, 2000, 3000], [5, 5, 5])
    assert flat is not None
    assert flat.r2 is None
    assert statistics.reduction_percent(0, 5) is None


@pytest.mark.parametrize("in_proportion", [False, True])
def test_intervals_from_repeats_cover_where_noise_grows_with_the_time(in_proportion: bool) -> None:
    rng = np.random.default_rng(3)
    x = np.array([256, 512, 1024, 2048, 3072])
    covered = np.zeros(2)
    for seed in range(100):
        true = 30 + 0.2 * x
        samples = rng.normal(true, 0.03 * true if in_proportion else 5.0, (5, 5)).T.tolist()
        plain = statistics.fit_line(x.tolist(), [float(np.median(values)) for values in samples])
        assert plain is not None
        line = statistics.with_repeats(plain, x.tolist(), samples, seed=seed)
        assert line.slope_interval is not None
        assert line.intercept_interval is not None
        slope, intercept = line.slope_interval, line.intercept_interval
        covered += slope.low <= 200 <= slope.high, intercept.low <= 30 <= intercept.high
    assert all(89 <= count <= 100 for count in covered)


def test_two_repeats_leave_the_line_as_it_is() -> None:
    line = statistics.fit_line([1, 2, 3], [1, 2, 4])
    assert line is not None
    assert statistics.with_repeats(line, [1, 2, 3], [[1, 1, 1], [2, 2], [4, 4, 4]], seed=0) is line


def test_many_lines_at_once_are_the_lines_one_by_one() -> None:
    rng = np.random.default_rng(1)
    x, y = np.array([10.0, 30.0, 70.0]), rng.normal(100, 10, (4, 3))
    slopes, intercepts = statistics.lines_through(x, y)
    for number in range(4):
        line = statistics.fit_line(x.tolist(), y[number].tolist())
        assert line is not None
        assert (slopes[number], intercepts[number]) == pytest.approx((line.slope_ms_per_ktoken, line.intercept_ms))

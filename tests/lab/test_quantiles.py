"""Quantiles with their samples, and shares with their intervals."""

import random
from math import isclose

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from anaphora.lab.quantiles import least_samples, quantile, wilson

FINITE = st.floats(-1e9, 1e9)


@pytest.mark.parametrize(("fraction", "least"), [(0.5, 2), (0.3, 4), (0.9, 10), (0.99, 100), (0.01, 100)])
def test_a_quantile_takes_a_sample_that_reaches_it(fraction: float, least: int) -> None:
    assert least_samples(fraction) == least
    assert quantile([1.0] * (least - 1), fraction) is None
    found = quantile([1.0] * least, fraction)
    assert found is not None
    assert (found.value, found.num_samples) == (1.0, least)


@given(st.lists(FINITE, min_size=2, max_size=300), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_quantile_lies_within_its_interval_and_both_within_the_sample(values: list[float], fraction: float) -> None:
    found = quantile(values, fraction)
    if found is None:
        assert len(values) < least_samples(fraction)
        return
    assert found.value == np.quantile(values, fraction)
    assert found.low is None or (found.low in values and found.low <= found.value)
    assert found.high is None or (found.high in values and found.value <= found.high)


@pytest.mark.parametrize(("n", "fraction"), [(20, 0.5), (60, 0.9), (400, 0.99), (50, 0.5)])
def test_the_interval_holds_the_populations_quantile_as_often_as_it_says(n: int, fraction: float) -> None:
    rng = random.Random(7)
    hits = 0
    for _ in range(1000):
        found = quantile([rng.random() for _ in range(n)], fraction)
        assert found is not None
        hits += (found.low is None or found.low <= fraction) and (found.high is None or fraction <= found.high)
    assert hits >= 940


def test_an_interval_is_open_where_the_sample_ends() -> None:
    found = quantile([float(n) for n in range(100)], 0.99)
    assert found is not None
    assert found.high is None
    assert found.low is not None


@given(st.integers(0, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilsons_interval_is_that_of_scipy_and_holds_the_share(counts: tuple[int, int]) -> None:
    within, all_of_them = counts
    found = wilson(within, all_of_them)
    if all_of_them == 0:
        assert found is None
        return
    assert found is not None
    expected = stats.binomtest(within, all_of_them).proportion_ci(0.95, method="wilson")
    assert isclose(found.low, expected.low, abs_tol=1e-9)
    assert isclose(found.high, expected.high, abs_tol=1e-9)
    assert 0 <= found.low <= within / all_of_them <= found.high <= 1

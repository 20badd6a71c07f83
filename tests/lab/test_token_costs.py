"""The two-variable fit against planted costs: values, coverage of its intervals, and what it refuses to tell."""

import numpy as np
import pytest

from anaphora.lab.token_costs import ALL_TERMS, PRODUCT, TERMS, Point, TokenCosts, fit_token_costs, noise_power

PLANTED = (12.0, 300.0, 7.0, 25.0)
GRID = [(computed, cached) for cached in (0, 512, 1024, 2048) for computed in (32, 256, 1024)]


def points(
    *,
    relative: float = 0.0,
    constant: float = 0.0,
    seed: int = 0,
    repeats: int = 6,
    planted: tuple[float, ...] = PLANTED,
) -> list[Point]:
    rng = np.random.default_rng(seed)
    made = []
    for computed, cached in GRID * repeats:
        fixed, a, b, c = planted
        k = computed / 1000
        exact = fixed + a * k + b * cached / 1000 + c * k * k
        noise = rng.normal() * (constant + relative * exact)
        made.append(Point(f"{computed}+{cached}", computed, cached, exact + noise))
    return made


def fitted(values: list[Point]) -> TokenCosts:
    costs = fit_token_costs(values)
    assert costs is not None
    return costs


def test_exact_times_give_the_planted_costs() -> None:
    costs = fitted(points())
    assert [costs.terms.values[name] for name in TERMS] == pytest.approx(PLANTED)
    assert max(map(abs, costs.terms.residuals_ms)) < 1e-9
    assert costs.terms.r2 == pytest.approx(1)
    assert costs.terms.at(500, 1000) == pytest.approx(12 + 150 + 7 + 25 / 4)
    assert (costs.computed_range, costs.cached_range) == ((32, 1024), (0, 2048))


@pytest.mark.parametrize(("relative", "constant"), [(0.0, 2.0), (0.03, 0.0), (0.02, 0.5)])
def test_intervals_cover_the_planted_costs_as_often_as_they_say(relative: float, constant: float) -> None:
    runs = [fitted(points(relative=relative, constant=constant, seed=seed)) for seed in range(200)]
    for name, planted in zip(TERMS, PLANTED, strict=True):
        covered = sum(run.terms.intervals[name].low <= planted <= run.terms.intervals[name].high for run in runs)
        assert 178 <= covered <= 199, name  # 95 % of 200 runs, the seeds being fixed


@pytest.mark.parametrize(("relative", "constant", "power"), [(0.0, 2.0, 0.0), (0.05, 0.0, 1.0)])
def test_the_noise_is_recognised(relative: float, constant: float, power: float) -> None:
    found = [fitted(points(relative=relative, constant=constant, seed=seed)).noise_power for seed in range(20)]
    assert abs(float(np.median(found)) - power) <= 0.25


def test_weights_make_intervals_narrower_where_noise_is_in_proportion() -> None:
    def width(values: list[Point]) -> float:
        interval = fitted(values).terms.intervals["cached_ms_per_ktoken"]
        return interval.high - interval.low

    noisy = [points(relative=0.05, seed=seed) for seed in range(20)]
    all_in_one_cell = [
        [Point(str(i), p.computed_tokens, p.cached_tokens, p.ttft_ms) for i, p in enumerate(one)] for one in noisy
    ]
    weighted, unweighted = (float(np.median([width(one) for one in many])) for many in (noisy, all_in_one_cell))
    assert weighted < 0.5 * unweighted


@pytest.mark.parametrize(
    "design",
    [
        [(100, 0), (200, 0), (300, 0), (400, 0), (500, 0)],
        [(100, 0), (100, 50), (100, 90), (100, 10), (100, 40)],
        [(100, 0), (200, 100), (100, 0), (200, 100), (100, 0)],
        [(100, 0), (200, 10), (300, 50), (400, 10)],
        [],
    ],
)
def test_points_that_do_not_separate_the_terms_give_no_fit(design: list[tuple[int, int]]) -> None:
    assert fit_token_costs([Point("x", computed, cached, 1.0 + computed) for computed, cached in design]) is None


def test_without_repeats_the_noise_is_taken_for_constant() -> None:
    assert noise_power([[1.0], [2.0]]) == noise_power([]) == noise_power([[3.0, 3.0]]) == 0.0


def with_product(times: float, *, seed: int = 0) -> list[Point]:
    """The grid's points, with so many milliseconds more for a thousand computed times a thousand cached tokens."""
    return [
        Point(p.cell, p.computed_tokens, p.cached_tokens, p.ttft_ms + times * p.computed_tokens * p.cached_tokens / 1e6)
        for p in points(relative=0.01, seed=seed)
    ]


@pytest.mark.parametrize("planted", [0.0, 3.0, 30.0])
def test_with_the_product_as_a_term_every_interval_covers_whether_there_is_one_or_not(planted: float) -> None:
    found = [fit_token_costs(with_product(planted, seed=seed), tries_product=True) for seed in range(200)]
    for name, truth in zip(ALL_TERMS, (*PLANTED, planted), strict=True):
        bounds = [costs.terms.intervals[name] for costs in found if costs is not None]
        assert len(bounds) == 200
        assert 178 <= sum(one.low <= truth <= one.high for one in bounds) <= 199, name  # the seeds being fixed


def test_the_formula_without_the_product_is_told_beside_it_and_judged() -> None:
    exact = fit_token_costs(with_product(40.0), tries_product=True)
    assert exact is not None
    assert exact.terms.at(500, 1000) == pytest.approx(12 + 150 + 7 + 25 / 4 + 20, rel=0.02)
    assert exact.without_product is not None
    assert set(exact.without_product.values) == set(TERMS)
    plain = fitted(with_product(40.0))
    assert set(plain.terms.values) == set(TERMS)  # not asked
    assert (plain.without_product, plain.aicc_without_product) == (None, None)

    def worse(planted: float) -> float:
        runs = [fit_token_costs(with_product(planted, seed=seed), tries_product=True) for seed in range(20)]
        return float(np.median([run.aicc_without_product for run in runs if run is not None]))

    assert worse(40.0) > 10
    assert -3 < worse(0.0) < 0


def test_eight_points_are_the_least_for_the_product() -> None:
    made = [Point(str(n), n, c, 10 + n / 4 + c / 100 + n * c / 1e5) for n, c in GRID]
    for num_points, has_product in ((7, False), (8, True)):
        costs = fit_token_costs(made[:num_points], tries_product=True)
        assert costs is not None
        assert (PRODUCT in costs.terms.values) is has_product
    assert costs is not None
    assert costs.aicc_without_product is not None


def test_two_arms_do_not_tell_it() -> None:
    arms = [(20, cached) for cached in (0, 256, 1024, 3072)] + [(computed, 0) for computed in (276, 1044, 3092)]
    rng = np.random.default_rng(1)
    made = [Point(f"{n}", n, c, 10 + n / 4 + c / 100 + rng.normal()) for n, c in arms * 5]
    costs = fit_token_costs(made, tries_product=True)
    assert costs is not None
    assert PRODUCT not in costs.terms.values

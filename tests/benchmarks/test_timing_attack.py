"""The attack's arithmetic: areas under the curve, and when the verdict may be trusted."""

import numpy as np
import pytest
from benchmarks.cache.timing_attack import TTFT, Trial, auc, judge, summarise, with_interval


def trials(attacker_ms: float, control_ms: float) -> list[Trial]:
    """Twenty right and twenty wrong guesses; a right one is answered sooner by so many milliseconds."""
    made = []
    for number in range(40):
        is_right = number % 2 == 0
        noise = (number * 7 % 40) / 10
        made.append(
            Trial(
                is_right,
                {TTFT: 50 + noise - attacker_ms * is_right, "cached_tokens": 0.0},
                {TTFT: 50 + noise - control_ms * is_right, "cached_tokens": 64.0 * is_right},
            )
        )
    return made


def test_the_area_counts_pairs_and_half_of_the_ties() -> None:
    assert auc(np.array([2.0, 3.0]), np.array([1.0, 2.0])) == (1 + 0.5 + 1 + 1) / 4
    assert auc(np.array([1.0]), np.array([1.0])) == 0.5
    assert with_interval(np.array([1.0, 1.0]), np.array([1.0]))["interval"] == [0.5, 0.5]


def test_what_never_differs_is_counted_and_what_differs_has_an_area() -> None:
    summary = summarise(trials(0, 30), "attacker")
    assert summary["num_things_equal_in_all_trials"] == 1
    assert list(summary["areas"]) == [TTFT]
    low, high = summary["areas"][TTFT]["interval"]
    assert low < 0.5 < high
    control = summarise(trials(0, 30), "control")
    assert control["areas"][TTFT]["auc"] == 0.0
    assert control["areas"]["cached_tokens"] == {"auc": 1.0, "interval": [1.0, 1.0]}
    assert control["median_ttft_ms"]["wrong_guess"] - control["median_ttft_ms"]["right_guess"] == pytest.approx(
        30, abs=1
    )


@pytest.mark.parametrize(
    ("attacker_ms", "control_ms", "hidden", "found"),
    [(0, 30, True, True), (30, 30, False, True), (0, 0, True, False)],
)
def test_the_verdict_needs_a_blind_attacker_and_a_control_that_sees(
    attacker_ms: float, control_ms: float, hidden: bool, found: bool
) -> None:
    played = trials(attacker_ms, control_ms)
    verdict = judge(summarise(played, "attacker"), summarise(played, "control"))
    assert verdict["attacker_sees_nothing"] is hidden
    assert verdict["control_found_by_time"] is found
    assert verdict["control_found_by_cached_tokens"] is True

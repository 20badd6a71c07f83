"""The kept proof that the lab's intervals hold, and that it can be made again."""

import json

import pytest
from benchmarks.lab import coverage

KEPT = json.loads(coverage.OUT.read_text("utf-8"))


@pytest.mark.parametrize("row", KEPT["coverage"], ids=lambda row: f"{row['parameter']}, {row['noise']}")
def test_the_kept_run_covers_what_was_planted(row: dict[str, float]) -> None:
    assert 0.89 * row["num_runs"] <= row["num_covered"] <= 0.99 * row["num_runs"]
    assert row["median_width_over_theory"] <= 2


def test_the_kept_run_raises_few_false_alarms_and_says_what_it_finds() -> None:
    for row in KEPT["effects"]:
        if row["planted_effect_percent"] == 0:
            assert row["num_called"] <= 0.1 * row["num_runs"]
    found = {
        (row["compared"], row["noise_percent"]): row["num_called"] / row["num_runs"]
        for row in KEPT["effects"]
        if row["planted_effect_percent"] == 5
    }
    assert all(share >= 0.8 for (name, noise), share in found.items() if noise <= 2 and "median" in name)


def test_the_same_seeds_give_the_same_rows() -> None:
    first = coverage.coverage(2)
    assert first == coverage.coverage(2)
    assert [(row["parameter"], row["noise"]) for row in first] == [
        (row["parameter"], row["noise"]) for row in KEPT["coverage"]
    ]
    assert all(row["median_width_over_theory"] > 0 for row in first)

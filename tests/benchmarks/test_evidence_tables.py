"""The kept results of the cache core: the tables beside them are what they say, and they say what the docs claim."""

import json
from typing import Any

import pytest
from benchmarks.cache.evidence_tables import RESULTS, TABLES, rendered


def kept(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text())


@pytest.mark.parametrize("name", sorted(TABLES))
def test_the_kept_table_is_made_of_the_kept_result(name: str) -> None:
    assert (RESULTS / f"{name}.md").read_text() == rendered(name)


def test_no_difference_to_vllm_is_untraced() -> None:
    results = kept("against_vllm")
    before = results["requests"]["no_duplicate_yet"]
    assert results["num_schedules"] == 1000 == results["num_schedules_that_follow_the_plain_caches"]
    assert before["requests"] == before["equal"] > 10_000
    assert results["untraced"] == []


def test_the_core_kept_its_aims() -> None:
    results = kept("core")
    ours = [row["median_ms"] for row in results["summary"] if row["arm"].startswith("ours")]
    assert {row["pool"] for row in results["summary"]} == {10_000, 100_000, 1_000_000}
    assert all(row["lookup"] <= 0.5 for row in ours)
    assert all(row["lookup"] + row["hold"] <= 2 for row in ours)
    assert all(row["allocate and commit"] + row["free"] <= 5 for row in ours)
    assert all(size <= 250 for size in results["bytes_per_block"].values())
    assert set(results["bytes_per_block"]) == {"8192", "128", "conversations", "8"}


def test_the_attacker_saw_nothing_and_the_control_everything() -> None:
    assert set(kept("timing_attack")["verdict"].values()) == {True}


def test_the_soak_was_long_and_found_no_difference() -> None:
    policies = kept("soak")["policies"].values()
    assert sum(done["steps"] for done in policies) >= 100_000
    assert all(done["differences"] == 0 < done["evicted_blocks"] for done in policies)

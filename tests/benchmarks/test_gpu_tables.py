"""The tables of what was measured on the H200: how they are made, and that the kept overload found nothing wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.gpu import tables


def lines(page: str) -> list[list[str]]:
    """The cells of a table's rows, without its head."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines()[2:]]


def keep(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, record: dict[str, Any]) -> None:
    monkeypatch.setattr(tables, "RESULTS", folder)
    (folder / name).write_text(json.dumps(record))


def test_agreement_has_a_dash_where_no_row_was_computed_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    row = {"dtype": "float32", "relative_error": 1e-6, "top_1_agreement": 1.0}
    tiny = [row, row | {"dtype": "bfloat16", "relative_error_of_a_row_alone": 0.02}]
    real = {"model": "m", "tokens": 9, "top_1_agreement": 0.5}
    keep(monkeypatch, tmp_path, "agreement.json", {"tiny": tiny, "real": real})
    assert lines(tables.agreement()) == [
        ["1 tiny random models, float32", "1.0e-06", "–", "100.0 %"],
        ["1 tiny random models, bfloat16", "1.0e-06", "2.0e-02", "100.0 %"],
        ["m, bfloat16, 9 tokens", "–", "–", "50.0 %"],
    ]


def test_versions_stand_in_the_order_of_their_age_whatever_ran_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = [
        {"tree": tree, "cold": {"1337": {"median_ms": ms, "host_ms": ms / 2}}}
        for tree, ms in (("new", 30.0), ("old", 40.0), ("new", 20.0))
    ]
    rows.append({"tree": "old", "streams": {"4060": {"decode_step_ms": 5.0, "all_ms": 400.0}}})
    rows.append({"tree": "new", "streams": {"4060": {"decode_step_ms": 5.5, "all_ms": 300.0}}})
    keep(monkeypatch, tmp_path, "passes.json", {"trees": ["old", "new"], "rows": rows})
    assert lines(tables.passes()) == [
        ["cold, 1,337 tokens: all", "`old`: 40.00", "`new`: 25.00", "−37.5 %"],
        ["cold, 1,337 tokens: the host's launches", "`old`: 20.00", "`new`: 12.50", "−37.5 %"],
        ["64 streams behind 4,060 tokens: a decode step", "`old`: 5.00", "`new`: 5.50", "+10.0 %"],
        ["64 streams behind 4,060 tokens: 64 tokens each", "`old`: 400.00", "`new`: 300.00", "−25.0 %"],
    ]


def scene(name: str, ended: dict[str, int], same: int, different: int) -> dict[str, Any]:
    return {
        "scene": name,
        "seconds": 4.34,
        "ended": ended,
        "grown": {"preemptions": 3, "evicted_blocks": 2481},
        "same_as_alone": {"same": same, "different": different},
        "problems": [],
    }


def test_overload_adds_up_endings_by_their_kind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    full = {"answered": 1200, "left before the first token": 2, "left midway": 5}
    short = {"answered": 1, "refused: 500 internal_error: no": 2, "refused: 503 unavailable": 3, "failed: no": 4}
    servers = [
        {"front_ends": 0, "scenes": [scene("out of memory", short, 0, 0)]},
        {"front_ends": 2, "scenes": [scene("full pool", full, 4, 1)]},
    ]
    keep(monkeypatch, tmp_path, "overload.json", {"servers": servers})
    assert lines(tables.overload()) == [
        ["out of memory", "1", "5", "4", "0", "3", "2,481", "–", "4.3"],
        ["full pool, 2 front ends", "1,200", "0", "0", "7", "3", "2,481", "4 of 5", "4.3"],
    ]


def test_the_kept_overload_had_all_scenes_and_no_problem() -> None:
    kept = json.loads((tables.RESULTS / "overload.json").read_text("utf-8"))
    assert kept["requests"] == 512
    for server in kept["servers"]:
        assert "problem" not in server
        assert [one["problems"] for one in server["scenes"]] == [[]] * len(server["scenes"])
    names = [one["scene"] for one in kept["servers"][0]["scenes"]]
    assert names == ["out of memory", "full pool", "clients leave", "more than it takes"]

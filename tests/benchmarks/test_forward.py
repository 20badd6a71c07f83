"""The forward benchmark's two ways compute the same, and its table has a line a case."""

from pathlib import Path

import pytest
from benchmarks.cpu import forward
from tests.models_for_tests import tiny_checkpoint


def test_plain_and_ours_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "MAX_TOKENS", 96)
    monkeypatch.setattr(forward, "MAX_TOKENS_A_PASS", 40)
    monkeypatch.setattr(forward, "CASES", {"cold": (1, 0, 64), "hit": (1, 64, 70), "many": (3, 48, 53)})
    ticks = iter(range(1000))
    rows = forward.measure(tiny_checkpoint(tmp_path / "model"), 2, lambda: next(ticks))
    assert [row["case"] for row in rows] == ["cold", "hit", "many"]
    assert rows[0]["samples_ms"] == {"plain": [1000.0, 1000.0], "ours": [1000.0, 1000.0]}
    assert all(row["logits_apart"] < 1e-4 for row in rows)
    assert forward.table(rows).splitlines()[2] == "| cold | 1000.0 (1000.0) | 1000.0 (1000.0) | 1.00 |"

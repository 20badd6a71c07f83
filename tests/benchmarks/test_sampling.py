"""Sums over samples, by hand; and a whole run on a small trace."""

from pathlib import Path
from typing import Any

import pytest
from benchmarks.cache import sampling

TRACE = Path(__file__).parents[1] / "data" / "traces" / "mooncake_conversation_300.jsonl.gz"


def row(estimate: float, expected: float | None, **changes: Any) -> dict[str, Any]:
    made = {"trace": "t", "rate": 0.1, "policy": "lru", "full": 0.5, "raw": 0.4, "speedup": 4.0}
    return {**made, "estimate": estimate, "expected_error": expected, **changes}


def test_errors_are_summed_up_in_points() -> None:
    (found,) = sampling.summary([row(0.53, 0.01), row(0.46, 0.03), row(0.5, None, raw=0.5)])
    assert (found["trace"], found["rate"], found["policy"], found["runs"]) == ("t", 0.1, "lru", 3)
    assert (found["bias"], found["worst"], found["speedup"]) == (-0.33, 4.0, 4.0)
    assert found["rmse"] == round(((9 + 16 + 0) / 3) ** 0.5, 2)
    assert found["raw_rmse"] == round((200 / 3) ** 0.5, 2)
    assert found["expected"] == round(((1 + 9) / 2) ** 0.5, 2)
    assert found["within_2"] == 0.5, "3 points are more than twice 1, 4 are less than twice 3"


def test_a_trace_is_sampled_and_replayed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "SHARES", (0.05,))
    monkeypatch.setattr(sampling, "RATES", (0.5,))
    rows = list(sampling.rows_of(TRACE, "lru", 2))
    assert [(found["draw"], found["policy"], found["share"]) for found in rows] == [(0, "lru", 0.05), (1, "lru", 0.05)]
    assert sum(found["requests"] for found in rows) == 300, "draws are disjoint"
    assert all(found["estimate"] == pytest.approx(found["full"], abs=1e-3) for found in rows), "LRU is known"

"""Tails are told where enough answers stand behind them, and not mentioned where nowhere are."""

from typing import Any

from anaphora.lab.experiments.summary import tail
from anaphora.lab.report.tails import tails_tables


def both(off: list[float], on: list[float]) -> dict[str, Any]:
    return {"off": tail(off), "on": tail(on)}


def test_few_answers_make_no_table() -> None:
    assert tails_tables("<", [("TTFT", both([1.0] * 9, [1.0] * 9))]) == ()


def test_ten_answers_tell_the_slowest_tenth() -> None:
    (table,) = tails_tables("<", [("TTFT", both([float(n) for n in range(1, 11)], [1.0] * 9))])
    assert table.rows == (("TTFT", "10, 9", "9.1", "–", "–", "–"),)

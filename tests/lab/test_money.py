"""Tokens times prices: by hand, at the edges, and as a report says it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.errors import ConfigError
from anaphora.lab.bills import money_of
from anaphora.lab.money import Prices, Tokens, bill, cost
from anaphora.lab.report.bills import money_tables
from tests.lab.records import record

PRICES = Prices(input=2.0, cached=0.5, written=2.5, output=8.0, currency="EUR")


def test_each_sort_of_token_has_its_price() -> None:
    tokens = Tokens(prompt=1_000_000, cached=400_000, written=100_000, output=10_000)
    assert cost(tokens, PRICES) == pytest.approx(0.5 * 2 + 0.4 * 0.5 + 0.1 * 2.5 + 0.01 * 8)
    plain = Prices(input=2.0, output=8.0)
    assert cost(tokens, plain) == pytest.approx(2.0 + 0.08)  # no discount is said: cached costs what input costs


counts = st.integers(0, 10**6)


@given(computed=counts, cached=counts, output=counts)
def test_a_discount_never_costs_more_and_nothing_cached_saves_nothing(computed: int, cached: int, output: int) -> None:
    made = bill([Tokens(prompt=computed + cached, cached=cached, output=output)], PRICES)
    assert made is not None
    assert made.with_cache <= made.without_cache * (1 + 1e-12)
    assert cached or made.with_cache == pytest.approx(made.without_cache)


def test_a_bill_is_for_a_thousand_requests_of_the_mean() -> None:
    made = bill([Tokens(prompt=1000, cached=0, output=10), Tokens(prompt=3000, cached=1000, output=30)], PRICES)
    assert made is not None
    assert made.mean == Tokens(prompt=2000, cached=500, output=20)
    assert made.without_cache == pytest.approx(1000 * (2000 * 2 + 20 * 8) / 1e6)
    assert made.with_cache == pytest.approx(1000 * (1500 * 2 + 500 * 0.5 + 20 * 8) / 1e6)
    assert made.saved_percent == pytest.approx((1 - 3.41 / 4.16) * 100)
    assert bill([], PRICES) is None


def test_writing_may_cost_more_than_it_saves_and_that_is_said_with_its_sign() -> None:
    made = bill([Tokens(prompt=1000, cached=0, written=1000, output=0)], PRICES)
    assert made is not None
    assert made.saved_percent == pytest.approx(-25)
    free = bill([Tokens(prompt=10, output=1)], Prices(input=0, output=0))
    assert free is not None
    assert free.saved_percent is None


@pytest.mark.parametrize(
    "wrong", [{"input": -1}, {"output": float("inf")}, {"cached": float("nan")}, {"currency": " "}]
)
def test_what_is_no_price_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"price of \w+ tokens|currency"):
        Prices(**{"input": 1, "output": 1, **wrong})  # type: ignore[arg-type]


def test_the_report_counts_only_requests_that_tell_and_says_how_many_do_not() -> None:
    records = [
        record(index=2),
        record(index=3, usage={"prompt_tokens": 100, "completion_tokens": 4}),
        record(arm="off"),
    ]
    money = money_of(records, PRICES.as_stored())
    assert money is not None
    (row,) = money["rows"]
    assert (row["num_requests"], row["num_told"], row["prompt_tokens"], row["cached_tokens"]) == (2, 1, 100, 96)
    assert row["with_cache_per_1000"] == pytest.approx(1000 * (4 * 2 + 96 * 0.5 + 4 * 8) / 1e6)
    (table,) = money_tables({"money": money})
    assert table.rows == (("switch", "100", "96", "4", "0.2320", "0.0880", "62.1%"),)
    assert "EUR for a million tokens: input 2, cached 0.5, written 2.5, output 8" in table.note
    assert "1 requests do not tell their tokens" in table.note


def test_without_prices_there_is_no_money_and_without_counts_no_amount() -> None:
    assert money_of([record()], None) is None
    assert money_tables({"money": None}) == ()
    assert money_tables({}) == ()
    money = money_of([record(usage=None)], PRICES.as_stored())
    assert money is not None
    (table,) = money_tables({"money": money})
    assert table.rows[0][4:6] == ("–", "–")

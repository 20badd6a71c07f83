"""Money as a table: what 1000 requests like the measured ones cost, with the cache and without."""

from collections.abc import Mapping, Sequence
from typing import Any

from anaphora.lab.money import Prices
from anaphora.lab.report.words import count, percent
from anaphora.report.tables import Table


def money_tables(results: Mapping[str, Any], *, of: str = "experiment") -> Sequence[Table]:
    """One table where prices are known, else none. ``of``: what the rows are."""
    money = results.get("money")
    return () if money is None else (_table(money, of),)


def _table(money: Mapping[str, Any], of: str) -> Table:
    prices = Prices.from_stored(money["prices"])
    rows = tuple(
        (
            row["experiment"],
            count(row["prompt_tokens"]),
            count(row["cached_tokens"]),
            count(row["output_tokens"]),
            amount(row["without_cache_per_1000"]),
            amount(row["with_cache_per_1000"]),
            percent(row["saved_percent"]),
        )
        for row in money["rows"]
    )
    unit = prices.currency
    columns = (
        f"<{of}",
        "prompt tokens",
        "cached",
        "output tokens",
        f"without cache ({unit})",
        f"with cache ({unit})",
        "saved",
    )
    return Table("Money: 1000 requests like the measured ones", columns, rows, _note(money, prices))


def amount(value: float | None) -> str:
    """An amount of money to four digits after the point; ``–`` if it is unknown."""
    return "–" if value is None else f"{value:,.4f}"


def _note(money: Mapping[str, Any], prices: Prices) -> str:
    said = {"input": prices.input, "cached": prices.cached, "written": prices.written, "output": prices.output}
    listed = ", ".join(f"{name} {'as input' if price is None else f'{price:,.10g}'}" for name, price in said.items())
    silent = sum(row["num_requests"] - row["num_told"] for row in money["rows"])
    unknown = f"; {silent} requests do not tell their tokens and are in no mean" if silent else ""
    whole = money["whole_run"]
    paid = (
        ""
        if whole["cost"] is None
        else f"\nall {whole['num_told']:,} requests of this run, warm-up and both arms: {amount(whole['cost'])} "
        f"{prices.currency}"
    )
    return f"{prices.currency} for a million tokens: {listed}; {money['means_over']}{unknown}{paid}"

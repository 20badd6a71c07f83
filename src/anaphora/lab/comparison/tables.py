"""A comparison as tables: one for each place."""

from anaphora.lab.comparison.compare import Comparison
from anaphora.lab.comparison.difference import Difference
from anaphora.lab.statistics import LEVEL, Interval
from anaphora.report.tables import Table

NOTE = (
    "Change: from A to B, in per cent of A, or in points (pp) of a percentage.\n"
    "“Chance”: a run made again would differ as much by its own noise. What else changed between them is no noise.\n"
    "Figures that are 0 in both runs are left out."
)
_NO_DECIMALS = 100


def differences_tables(comparison: Comparison) -> list[Table]:
    """One table for each place, one row for each figure."""
    shown = [one for one in comparison.differences if one.a != 0 or one.b != 0]
    by_place: dict[str, list[tuple[str, ...]]] = {}
    for one in shown:
        by_place.setdefault(one.place, []).append(_row(one))
    columns = ("<figure", "A", "B", "change", f"interval at {LEVEL:.0%}", "n", "<verdict")
    return [Table(place.replace(".", " "), columns, tuple(rows)) for place, rows in by_place.items()]


def _row(one: Difference) -> tuple[str, ...]:
    is_ratio = one.relative_percent is not None
    change, interval = (
        (one.relative_percent or 0.0, one.relative_interval) if is_ratio else (one.change, one.change_interval)
    )
    unit = "%" if is_ratio else "pp" if one.unit == "%" else " ms"
    samples = f"{one.num_a}" if one.num_a == one.num_b else f"{one.num_a}/{one.num_b}"
    return (
        one.name,
        _number(one.a, one.unit),
        _number(one.b, one.unit),
        f"{change:+.1f}{unit}".replace("-", "−"),
        _interval(interval),
        samples,
        verdict(one),
    )


def verdict(one: Difference) -> str:
    """What the interval says, in a word or two."""
    if one.is_chance is None:
        return "too few"
    if one.is_chance:
        return "chance" if one.change else "the same"
    words = ("higher", "lower") if one.unit == "%" else ("slower", "faster")
    return words[one.change < 0]


def _number(value: float, unit: str) -> str:
    return f"{value:,.1f}{'%' if unit == '%' else ''}".replace("-", "−")


def _interval(value: Interval | None) -> str:
    if value is None:
        return "–"
    digits = 0 if max(-value.low, value.high) >= _NO_DECIMALS else 1
    return f"{value.low:+.{digits}f} to {value.high:+.{digits}f}".replace("-", "−")

"""Numbers and findings in words; every page and table says them the same way."""

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

UNKNOWN = "unknown"


def model_name(target: Mapping[str, Any]) -> str:
    """The model's name for titles: of a file or folder, which some servers call it by, the last part of its path."""
    name = str(target["model"])
    return PurePath(name).name if name.startswith("/") else name


def ms(value: float | None) -> str:
    """Milliseconds with one decimal."""
    return "–" if value is None else f"{value:,.1f}".replace("-", "−")


def signed_percent(value: float | None) -> str:
    """A change with its sign: a reduction by 92.6% is −92.6%, a negative one +2.1%."""
    if value is None:
        return "–"
    return f"{'−' if value > 0 else '+' if value < 0 else '±'}{abs(value):.1f}%"


def percent(value: float | None) -> str:
    """A share or a reduction; a negative one keeps its sign."""
    return UNKNOWN if value is None else f"{value:.1f}%".replace("-", "−")


def count(value: float | None) -> str:
    """Tokens."""
    return "–" if value is None else f"{value:,.0f}"


def interval(value: Mapping[str, Any] | None, digits: int = 1) -> str:
    """An interval without its level (see :func:`level_of`)."""
    return "–" if value is None else f"{value['low']:,.{digits}f} to {value['high']:,.{digits}f}".replace("-", "−")


def level_of(intervals: Iterable[Mapping[str, Any] | None]) -> str | None:
    """The level that all of these intervals reach at least; ``None`` where there are none."""
    levels = [value["level"] for value in intervals if value is not None]
    return f"{min(levels) * 100:g}%" if levels else None


def levels_in_words(intervals: Iterable[Mapping[str, Any] | None]) -> str:
    """What a reader must know of a column of intervals."""
    level = level_of(intervals)
    return "too few requests for intervals" if level is None else f"intervals at {level}"


def change(off: float | None, on: float | None, reduction: float | None) -> str:
    """From the off arm's milliseconds to the on arm's."""
    return f"from {ms(off)} to {ms(on)} ms ({signed_percent(reduction)})"

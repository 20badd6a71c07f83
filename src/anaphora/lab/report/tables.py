"""Nested values as rows of a table."""

from collections.abc import Mapping, Sequence
from typing import Any


def plain_rows(value: Mapping[str, Any], prefix: str = "") -> Sequence[tuple[str, str]]:
    """A nested mapping as pairs of dotted name and text."""
    rows: list[tuple[str, str]] = []
    for name, item in value.items():
        if isinstance(item, Mapping):
            rows += plain_rows(item, f"{prefix}{name}.")
        elif item not in (None, "", [], ()):
            text = ", ".join(str(one) for one in item) if isinstance(item, list | tuple) else str(item)
            rows.append((prefix + name, text))
    return rows

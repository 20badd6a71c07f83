"""A table as rows of text, for the terminal and for the page alike."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """``columns`` whose name begins with ``<`` hold words and go left; all others hold numbers and go right.

    ``note``: what stands below, one line or several.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

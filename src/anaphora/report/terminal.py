"""Tables on the terminal."""

from collections.abc import Sequence
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from anaphora.report.tables import Table

_GAP = 3
_LEAST_WORDS = 12


def print_table(table: Table, console: Console) -> None:
    """One table; texts of servers are shown as they are, never as markup. No digit is ever cut off."""
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    headings, widths = list(table.columns), _widths(table.columns, columns)
    if _least(headings, widths) > console.width:
        headings = [name.replace("_", "_\n") for name in headings]
        widths = _widths(headings, columns)
    least = _least(headings, widths)
    too_wide = least > console.width
    grid = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, width=least if too_wide else None)
    room = max(console.width, least) - sum(width + _GAP for width in widths if width is not None)
    limits = _shares([_longest(cells) for cells, width in zip(columns, widths, strict=True) if width is None], room)
    for name, width in zip(headings, widths, strict=True):
        justify: Literal["left", "right"] = "left" if width is None else "right"
        grid.add_column(Text(name.removeprefix("<")), justify=justify, width=width, no_wrap=width is None)
    for row in table.rows:
        cells = [Text(cell) for cell in row]
        words = [cell for cell, width in zip(cells, widths, strict=True) if width is None]
        for cell, limit in zip(words, limits, strict=True):
            cell.truncate(limit, overflow="ellipsis")
        grid.add_row(*cells)
    console.print(Text(table.title, style="bold"))
    console.print(grid, crop=not too_wide, soft_wrap=too_wide)
    if table.note:
        console.print(Text(table.note, style="dim"))
    console.print()


def _widths(headings: Sequence[str], columns: Sequence[Sequence[str]]) -> list[int | None]:
    return [_width_of_numbers(name, cells) for name, cells in zip(headings, columns, strict=True)]


def _least(headings: Sequence[str], widths: Sequence[int | None]) -> int:
    """Columns of the terminal that the table takes with words cut as short as may be."""
    pairs = zip(headings, widths, strict=True)
    return sum((max(_LEAST_WORDS, cell_len(name) - 1) if width is None else width) + _GAP for name, width in pairs)


def _width_of_numbers(name: str, cells: Sequence[str]) -> int | None:
    """The width that keeps every number on one line, or ``None`` for a column of words; headings wrap between words."""
    if name.startswith("<"):
        return None
    return max(cell_len(text) for text in (*name.split(), *cells))


def _longest(cells: Sequence[str]) -> int:
    return max(map(cell_len, cells), default=0)


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    """How much each column of words gets: what it wants, or an equal share of what those with less leave over."""
    got = list(wanted)
    left = room
    for number, (index, wish) in enumerate(sorted(enumerate(wanted), key=lambda item: item[1])):
        got[index] = min(wish, max(_LEAST_WORDS, left // (len(wanted) - number) - _GAP))
        left -= got[index] + _GAP
    return got

"""Tables on terminals of any width: words may be cut short, numbers never."""

import io

import pytest
from rich.console import Console

from anaphora.report.tables import Table
from anaphora.report.terminal import print_table

COLUMNS = ("<policy", "capacity", "tail", "reused_device", "last_token", "trace rule, tokens", "<what a server said")
ROWS = (
    ("return-rate", "1,234,567", "0.47", "16.38", "1.26", "70.55", "a long message that nobody needs to the last word"),
    ("lru", "inf", "0.00", "100.00", "0.00", "9.99", "[red]no markup[/red]"),
)


def printed(width: int, rows: tuple[tuple[str, ...], ...] = ROWS) -> str:
    text = io.StringIO()
    print_table(Table("A title", COLUMNS, rows, "A note."), Console(file=text, width=width))
    return text.getvalue()


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, 200])
def test_numbers_are_whole_and_each_row_is_one_line(width: int) -> None:
    lines = printed(width).splitlines()
    for row in ROWS:
        line = next(line for line in lines if line.startswith(f" {row[0]}"))
        assert line.split()[1:6] == list(row[1:6])
    assert "A note." in lines


def test_headings_break_before_anything_is_too_wide() -> None:
    assert max(map(len, printed(120).splitlines())) <= 120
    assert "reused_device" in printed(200)
    narrow = printed(85)
    assert "reused_device" not in narrow
    assert "reused_" in narrow
    assert max(map(len, narrow.splitlines())) <= 85


def test_words_are_cut_short_and_never_markup() -> None:
    assert ROWS[0][-1] not in printed(120)
    assert "…" in printed(120)
    assert ROWS[0][-1] in printed(200)
    assert ROWS[1][-1] in printed(200)


def test_a_table_without_rows_has_its_headings() -> None:
    assert "capacity" in printed(80, ())

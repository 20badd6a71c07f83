"""Tables on pages: as they are where there is room, a card a row on a phone."""

from html.parser import HTMLParser

import pytest

from anaphora.lab.comparison.compare import compare
from anaphora.lab.comparison.tables import differences_tables
from anaphora.lab.report.languages import LANGUAGES
from anaphora.report.language import table_in
from anaphora.report.page import html_table
from anaphora.report.style import STYLE
from anaphora.report.tables import Table
from tests.lab.comparison.runs import gradient_run

Cell = tuple[str, dict[str, str | None], str]


class _Cells(HTMLParser):
    """Tag, attributes and text of every heading and cell, and the classes of the table."""

    def __init__(self) -> None:
        super().__init__()
        self.table: str | None = None
        self.found: list[Cell] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.table = dict(attrs).get("class")
        if tag in ("th", "td"):
            self.found.append((tag, dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.found:
            tag, attrs, text = self.found[-1]
            self.found[-1] = (tag, attrs, text + data)


def read(table: Table) -> _Cells:
    cells = _Cells()
    cells.feed(html_table(table))
    return cells


def rows_of(cells: _Cells, num_columns: int) -> list[list[Cell]]:
    body = [cell for cell in cells.found if cell[0] == "td"]
    return [body[start : start + num_columns] for start in range(0, len(body), num_columns)]


WIDE = Table(
    "How it went",
    ("<kind", "first time (ms)", "second time (ms)", "interval (ms)", "of <these>", "all told"),
    (("short", "1.0", "2.0", "1.0 to 2.0", "3", "4"), ("long", "1,000.0", "2,000.0", "1,000.0 to 2,000.0", "", "4")),
)


def test_a_table_with_room_on_a_phone_stays_one() -> None:
    cells = read(Table("Small", ("<name", "off", "on"), (("switch", "1,234.5", "12.3"),)))
    assert cells.table is None
    assert [attrs for _, attrs, _ in cells.found] == [{"class": "left"}, {}, {}] * 2


def test_a_wider_one_has_its_headings_in_every_cell_for_cards() -> None:
    cells = read(WIDE)
    names = [name.removeprefix("<") for name in WIDE.columns]
    assert cells.table == "cards"
    assert [text for tag, _, text in cells.found if tag == "th"] == names
    for row, texts in zip(rows_of(cells, len(names)), WIDE.rows, strict=True):
        assert [attrs["data-label"] for _, attrs, _ in row] == names
        assert [text for *_, text in row] == list(texts)


def test_a_column_has_the_same_place_on_every_card() -> None:
    for column in zip(*rows_of(read(WIDE), len(WIDE.columns)), strict=True):
        assert len({attrs.get("class") for _, attrs, _ in column}) == 1
    assert [attrs.get("class") for _, attrs, _ in rows_of(read(WIDE), 6)[0]] == ["left", None, None, "long", None, None]


@pytest.mark.parametrize(
    ("text", "place"), [("9" * 15, None), ("9" * 16, "long"), ("九" * 8, "long"), ("9" * 31, "whole")]
)
def test_long_cells_take_more_of_a_card(text: str, place: str | None) -> None:
    table = Table("", ("a", "b", "c", "d"), (("9" * 14, "9" * 14, "9" * 14, text),))
    assert rows_of(read(table), 4)[0][3][1].get("class") == place


def test_long_words_of_headings_count_and_chinese_ones_break_anywhere() -> None:
    def is_cards(heading: str) -> bool:
        return read(Table("", (heading,) * 4, (("1.0",) * 4,))).table == "cards"

    assert is_cards("unbreakableword")
    assert not is_cards("words that break")
    assert not is_cards("on-and-off")
    assert not is_cards("很长的没有空格的标题也可以换行")


@pytest.mark.parametrize("code", LANGUAGES)
def test_two_runs_figure_by_figure_are_cards_on_a_phone(code: str) -> None:
    tables = differences_tables(compare(gradient_run(seed=1, noise=0.02), gradient_run(seed=2, noise=0.02)))
    for table in tables:
        shown = read(table_in(table, LANGUAGES[code].say))
        assert shown.table == "cards", table.title
        assert all(attrs["data-label"] for tag, attrs, _ in shown.found if tag == "td")


def test_cards_are_for_narrow_screens_alone() -> None:
    before, narrow = STYLE.split("@media (max-width: 40rem)")
    assert ".cards" not in before
    assert "content: attr(data-label)" in narrow

"""One file without scripts or outside resources, for wide and narrow screens, light and dark.

All texts go through :func:`html.escape`, except for the bodies of sections, which are HTML already.
"""

import re
from collections.abc import Iterable
from html import escape
from unicodedata import east_asian_width

from anaphora.report.language import Say, english, table_in
from anaphora.report.style import STYLE
from anaphora.report.tables import Table

_LONG_ROWS = 12
_PHONE_LETTERS = 42
"""So many have room side by side on 390 pixels."""
_LEFT_LETTERS = 12.0
_PADDING_LETTERS = 1.6
_WORDS = re.compile(r"[\x21-\x2c\x2e-\x7e]+")
"""What a heading is not broken within; Chinese may be broken anywhere."""
_CARD_LETTERS = 15
"""More take two of three places on a card."""


def document(title: str, subtitle: str, sections: Iterable[str], *, language: str = "en") -> str:
    """The whole page; ``language`` is a code, such as ``zh``."""
    return (
        f'<!doctype html>\n<html lang="{escape(language)}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<header><h1>{escape(title)}</h1><p>{escape(subtitle)}</p></header>\n"
        + "\n".join(sections)
        + "\n</main>\n</body>\n</html>\n"
    )


def section(title: str, body: str) -> str:
    """A heading and, below it, HTML."""
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}\n</section>"


def html_table(table: Table) -> str:
    """A table and its note. On a phone, one that has no room there becomes a card a row, each cell with its column's
    name; on other screens it scrolls sideways where it does not fit."""
    is_wide = _phone_width(table) > _PHONE_LETTERS
    names = [name.removeprefix("<") for name in table.columns]
    sides = ["left" if name.startswith("<") else "" for name in table.columns]
    places = [
        f"{side} {_place_on_card(cells)}".strip() for side, (_, cells) in zip(sides, _by_column(table), strict=True)
    ]
    cells = list(zip(places, names, strict=True)) if is_wide else [(side, "") for side in sides]
    head = "".join(_cell("th", name, side) for name, side in zip(names, sides, strict=True))
    body = "".join(
        f"<tr>{''.join(_cell('td', text, *cell) for text, cell in zip(row, cells, strict=True))}</tr>"
        for row in table.rows
    )
    note = "".join(f'<p class="note">{escape(line)}</p>' for line in table.note.splitlines())
    return (
        f'<div class="scroll"><table{" class=cards" if is_wide else ""}><caption>{escape(table.title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{note}"
    )


def foldable_table(table: Table, say: Say = english) -> str:
    """A table in the reader's language that stays folded until it is wanted, if it is long."""
    shown = html_table(table_in(table, say))
    if len(table.rows) <= _LONG_ROWS:
        return shown
    summary = f"{say(table.title)}: {say(f'{len(table.rows)} rows')}"
    return f"<details><summary>{escape(summary)}</summary>{shown}</details>"


def _cell(tag: str, text: str, classes: str, label: str = "") -> str:
    marks = f' class="{classes}"' if classes else ""
    marks += f' data-label="{escape(label)}"' if label else ""
    return f"<{tag}{marks}>{escape(text)}</{tag}>"


def _by_column(table: Table) -> list[tuple[str, tuple[str, ...]]]:
    return [(name, tuple(row[number] for row in table.rows)) for number, name in enumerate(table.columns)]


def _phone_width(table: Table) -> float:
    """About how many letters wide a table is at least: words to the left may break anywhere, numbers stay whole."""
    return sum(
        _LEFT_LETTERS
        if name.startswith("<")
        else max(_letters_of(cells), _letters_of(_WORDS.findall(name))) + _PADDING_LETTERS
        for name, cells in _by_column(table)
    )


def _place_on_card(cells: Iterable[str]) -> str:
    """A third of its width, two, or all of it, the same on every card of a table."""
    letters = _letters_of(cells)
    return "" if letters <= _CARD_LETTERS else "long" if letters <= 2 * _CARD_LETTERS else "whole"


def _letters_of(texts: Iterable[str]) -> int:
    """The most in one text. Chinese letters are twice as wide as others."""
    return max((sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text) for text in texts), default=0)

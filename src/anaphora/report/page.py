"""One file without scripts or outside resources, for wide and narrow screens, light and dark.

All texts go through :func:`html.escape`, except for the bodies of sections, which are HTML already.
"""

from collections.abc import Iterable
from html import escape

from anaphora.report.language import Say, english, table_in
from anaphora.report.style import STYLE
from anaphora.report.tables import Table

_LONG_ROWS = 12


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
    """A table that scrolls sideways where it does not fit, and its note."""
    left = [name.startswith("<") for name in table.columns]
    head = "".join(
        _cell("th", name.removeprefix("<"), is_left) for name, is_left in zip(table.columns, left, strict=True)
    )
    body = "".join(
        "<tr>" + "".join(_cell("td", cell, is_left) for cell, is_left in zip(row, left, strict=True)) + "</tr>"
        for row in table.rows
    )
    note = "".join(f'<p class="note">{escape(line)}</p>' for line in table.note.splitlines())
    return (
        f'<div class="scroll"><table><caption>{escape(table.title)}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{note}"
    )


def foldable_table(table: Table, say: Say = english) -> str:
    """A table in the reader's language that stays folded until it is wanted, if it is long."""
    shown = html_table(table_in(table, say))
    if len(table.rows) <= _LONG_ROWS:
        return shown
    summary = f"{say(table.title)}: {say(f'{len(table.rows)} rows')}"
    return f"<details><summary>{escape(summary)}</summary>{shown}</details>"


def _cell(tag: str, text: str, is_left: bool) -> str:
    return f"<{tag}{' class=left' if is_left else ''}>{escape(text)}</{tag}>"

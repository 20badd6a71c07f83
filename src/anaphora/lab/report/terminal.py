"""A report on the terminal."""

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from anaphora.lab.report.tables import Table, tables_of
from anaphora.lab.report.words import answer


def print_table(table: Table, console: Console) -> None:
    """One table; texts of servers are shown as they are, never as markup."""
    grid = RichTable(title=Text(table.title, style="bold"), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in table.columns:
        grid.add_column(Text(name.removeprefix("<")), justify="left" if name.startswith("<") else "right")
    for row in table.rows:
        grid.add_row(*(_cell(name, text) for name, text in zip(table.columns, row, strict=True)))
    console.print(grid)
    if table.note:
        console.print(Text(table.note, style="dim"))
    console.print()


def _cell(column: str, text: str) -> Text:
    """Words may wrap; a number stays on its line, whatever the width."""
    return Text(text if column.startswith("<") else text.replace(" ", "\N{NO-BREAK SPACE}"))


def print_report(results: Mapping[str, Any], console: Console) -> None:
    """All tables, the doubts, and the answer."""
    for table in tables_of(results):
        print_table(table, console)
    for check in results["trust"]:
        if check["status"] == "warning":
            console.print(Text(f"! {check['name']}: {check['seen']}", style="yellow"))
    console.print(Text(answer(results), style="bold"))

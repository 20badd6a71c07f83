"""A report on the terminal."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from anaphora.lab.report.presentations import answer, tables_of
from anaphora.report.terminal import print_table


def print_report(results: Mapping[str, Any], console: Console) -> None:
    """All tables, the doubts, and the answer."""
    for table in tables_of(results):
        print_table(table, console)
    for check in results["trust"]:
        if check["status"] == "warning":
            console.print(Text(f"! {check['name']}: {check['seen']}", style="yellow"))
    console.print(Text(answer(results), style="bold"))

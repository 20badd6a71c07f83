"""A report on the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from anaphora.lab.report.languages import ENGLISH, Language
from anaphora.lab.report.presentations import answer, tables_of
from anaphora.report.language import table_in
from anaphora.report.terminal import print_table

_NO_FONT = "Figures that are files have English labels: no font with Chinese letters is installed."


def print_report(results: Mapping[str, Any], console: Console, language: Language = ENGLISH) -> None:
    """All tables, the doubts, and the answer."""
    say = language.say
    for table in tables_of(results):
        print_table(table_in(table, say), console)
    print_end(results["trust"], answer(results), console, language)


def print_end(trust: Sequence[Mapping[str, Any]], found: str, console: Console, language: Language) -> None:
    """The checks that warn, and the answer."""
    say = language.say
    for check in trust:
        if check["status"] == "warning":
            console.print(Text(f"! {say(check['name'])}: {say(check['seen'])}", style="yellow"))
    console.print(Text(say(found), style="bold"))
    if not language.can_be_drawn:
        console.print(Text(say(_NO_FONT), style="dim"))

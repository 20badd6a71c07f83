"""Checks on the terminal."""

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from anaphora.lab.doctor.check import Check, Status

_LOOKS = {
    Status.OK: ("ok", "green"),
    Status.WARNING: ("warning", "yellow"),
    Status.FAULT: ("FAULT", "bold red"),
    Status.NOT_APPLICABLE: ("–", "dim"),
}
_INDENT = 9


def print_check(check: Check, console: Console) -> None:
    """One check: its status and name, what was seen, and what to do. Words of servers are never taken as markup."""
    word, style = _LOOKS[check.status]
    console.print(Text.assemble((f"{word:<{_INDENT}}", style), (check.name, "bold")))
    console.print(Padding(Text(check.seen), (0, 0, 0, _INDENT)))
    if check.fix:
        console.print(Padding(Text(f"→ {check.fix}", style="cyan"), (0, 0, 0, _INDENT)))

"""`anaphora report`: a report again, from its records."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("report")(report)


def report(folder: Annotated[Path, typer.Argument(help="A report folder of `anaphora bench`.")]) -> None:
    """Make results, tables, figures and report.html again from records.jsonl."""
    from rich.console import Console

    from anaphora.errors import TraceError
    from anaphora.lab.load.records import RECORDS_FILE as LOAD_FILE
    from anaphora.lab.load.report import print_load, write_load
    from anaphora.lab.report import write_report
    from anaphora.lab.report.terminal import print_report

    if not folder.is_dir():
        raise TraceError(f"{folder} is no folder: give a report folder of `anaphora bench`")
    if (folder / LOAD_FILE).exists():
        print_load(write_load(folder), Console())
    else:
        print_report(write_report(folder), Console())
    typer.echo(f"\nreport: {folder / 'report.html'}")

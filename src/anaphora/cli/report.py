"""`anaphora report`: a report again, from its records."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("report")(report)


def report(
    folder: Annotated[Path, typer.Argument(help="A report folder of `anaphora bench`.")],
    lang: Annotated[
        str | None, typer.Option(metavar="en|zh", help="English or Chinese. Default: as the run was asked for.")
    ] = None,
) -> None:
    """Make results, tables, figures and report.html again from records.jsonl."""
    from rich.console import Console

    from anaphora.errors import TraceError
    from anaphora.lab.load.record_file import RECORDS_FILE as LOAD_FILE
    from anaphora.lab.load.record_file import read_load
    from anaphora.lab.load.report import print_load, write_load
    from anaphora.lab.report import write_report
    from anaphora.lab.report.languages import language_of
    from anaphora.lab.report.terminal import print_report
    from anaphora.traces.records import read_run

    if not folder.is_dir():
        raise TraceError(f"{folder} is no folder: give a report folder of `anaphora bench`")
    if (folder / "probe.json").exists():
        raise TraceError(f"{folder} holds a probe: its report is {folder / 'probe.html'}")
    if (folder / LOAD_FILE).exists():
        language = language_of(lang or str(read_load(folder).header.settings.get("lang", "en")))
        print_load(write_load(folder, language), Console(), language)
    else:
        code = lang or str(read_run(folder).header.settings.get("lang", "en"))
        language = language_of(code)
        print_report(write_report(folder, language), Console(), language)
    typer.echo(f"\nreport: {folder / 'report.html'}")

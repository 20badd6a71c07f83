"""`anaphora fit`: the lines through a published table."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("fit")(fit)


def fit(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE.csv", help="Columns prompt_tokens, off_ttft_ms, on_ttft_ms; others are ignored."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Fit TTFT against prompt tokens for both arms of a table, as `bench gradient` does."""
    import json

    from rich.console import Console

    from anaphora.lab.published import fit_table
    from anaphora.lab.report.lines import lines_table
    from anaphora.report.terminal import print_table

    fitted = fit_table(file)
    if as_json:
        typer.echo(
            json.dumps({**fitted["fit"], "slope_reduction_percent": fitted["slope_reduction_percent"]}, indent=2)
        )
    else:
        print_table(lines_table(fitted), Console())

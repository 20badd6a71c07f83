"""`anaphora compare`: two saved runs, and a gate against regressions."""

from pathlib import Path
from typing import Annotated

import typer

from anaphora.errors import ConfigError

REGRESSION_EXIT_CODE = 1

FailIfOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION",
        help="End with exit code 1 if a figure changed by more than this and chance does not explain it: "
        "'ttft_on_p50 > +5%', 'gradient.2048.ttft_on_p50 > +20ms', 'hit_rate_on < -2pp'. May be repeated.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("compare")(compare)


def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="Report folder of the run to compare with.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Report folder of the new run.")],
    fail_if: FailIfOption = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Compare runs with another model or other ways to switch the cache off.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
) -> None:
    """Compare two saved runs: every figure of both, the change with its interval, and whether chance explains it."""
    import json

    from rich.console import Console
    from rich.text import Text

    from anaphora.lab.comparison.compare import compare as compare_runs
    from anaphora.lab.comparison.compare import comparison_as_json, judge
    from anaphora.lab.comparison.conditions import Condition
    from anaphora.lab.comparison.tables import NOTE, differences_tables
    from anaphora.lab.load.record_file import RECORDS_FILE as LOAD_RECORDS_FILE
    from anaphora.report.terminal import print_table
    from anaphora.traces.records import read_run

    for folder in (a, b):
        if (folder / LOAD_RECORDS_FILE).exists():
            raise ConfigError(f"{folder} holds a run of `anaphora bench load`: read the two report.html side by side")
    conditions = [Condition.parse(text) for text in fail_if or ()]
    comparison = compare_runs(read_run(a), read_run(b), anyway=anyway, seed=seed)
    verdicts = judge(comparison, conditions)
    if as_json:
        typer.echo(json.dumps(comparison_as_json(comparison, verdicts), indent=2, ensure_ascii=False))
    else:
        console = Console()
        for line in (*comparison.remarks, *(f"left out: {text}" for text in comparison.left_out)):
            console.print(Text(f"! {line}", style="yellow"), soft_wrap=True)
        for table in differences_tables(comparison):
            print_table(table, console)
        console.print(Text(NOTE, style="dim"), soft_wrap=True)
        for verdict in verdicts:
            found, style = (f"failed by {', '.join(verdict.met_by)}", "red") if verdict.met_by else ("passed", "green")
            console.print(Text(f"{verdict.condition}: {found}", style=style), soft_wrap=True)
    if any(verdict.met_by for verdict in verdicts):
        raise typer.Exit(REGRESSION_EXIT_CODE)

"""`anaphora calibrate`: how late the lab's own stamps are on this machine."""

from typing import Annotated

import typer

from anaphora.cli.numbers import parse_numbers


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("calibrate")(calibrate)


def calibrate(
    concurrency: Annotated[str, typer.Option(metavar="N,N,…", help="How many streams at once.")] = "1,64,256",
    repeats: Annotated[int, typer.Option(help="How often each; a single stream twenty times as often.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Measure the client's own error on a built-in server whose every send is known to the nanosecond."""
    import asyncio
    import json

    from rich.console import Console

    from anaphora.lab.calibration.calibrate import as_json as to_json
    from anaphora.lab.calibration.calibrate import calibrate as measure
    from anaphora.lab.calibration.tables import client_error_table, doubts
    from anaphora.report.terminal import print_table

    found = asyncio.run(measure(parse_numbers(concurrency, "--concurrency", example="1,64,256"), repeats=repeats))
    if as_json:
        told = {**to_json(found), "doubts": doubts(found)}
        typer.echo(json.dumps(told, indent=2))
    else:
        print_table(client_error_table(found), Console())

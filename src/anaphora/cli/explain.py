"""`anaphora explain`: where and why the prompts of a log part."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("explain")(explain)


def explain(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="REQUESTS.jsonl", help="OpenAI request bodies or batch lines, one a line; .gz is read too."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print every comparison as JSON.")] = False,
) -> None:
    """Compare every request with the earlier one that it shares the longest beginning with, and name the cause of the
    first difference: a clock in the system prompt, tools in another order, an edited history, …"""
    import json

    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    from anaphora.explain.prompts import compare, group, read_requests
    from anaphora.explain.tables import advice, groups_table
    from anaphora.explain.tables import as_json as to_json
    from anaphora.report.terminal import print_table
    from anaphora.traces.findings import Findings

    findings = Findings()
    requests = read_requests(file, findings)
    comparisons = compare(requests)
    groups = group(comparisons)
    for finding in findings.all():
        typer.echo(str(finding), err=True)
    if as_json:
        typer.echo(json.dumps(to_json(comparisons, groups, len(requests)), indent=2, ensure_ascii=False))
        return
    console = Console()
    if len(requests) == 1:
        console.print(Text(f"{file} holds one request: there is no earlier one that it could be compared with"))
        return
    print_table(groups_table(groups, len(requests)), console)
    for what, shown, cure in advice(groups):
        console.print(Text(what, style="bold yellow"))
        console.print(Padding(Text(shown, style="dim"), (0, 0, 0, 2)))
        console.print(Padding(Text(f"→ {cure}", style="cyan"), (0, 0, 1, 2)))
    if not advice(groups):
        console.print(Text("no beginning is lost: requests part where they are meant to", style="bold green"))

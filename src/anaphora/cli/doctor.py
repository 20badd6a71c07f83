"""`anaphora doctor`: what is wrong with a server or with a client's settings, and what to do."""

from pathlib import Path
from typing import Annotated

import typer

from anaphora.cli.target_options import kind_option

FAULTS_EXIT_CODE = 1

ClientConfigOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A client's settings (JSON, TOML, YAML or .env): are base URL, key and model all there?",
        dir_okay=False,
    ),
]
PromptsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Your own requests, one JSON body a line: do they share a beginning?", dir_okay=False
    ),
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("doctor")(doctor)


def doctor(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[URL|PROFILE]", help="The server's base URL, with or without /v1, or the name of a profile."
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model's name; without it, the one that is listed.")] = None,
    api_key_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="The environment variable that holds the key; never shown.")
    ] = None,
    kind: Annotated[str | None, kind_option()] = None,
    client_config: ClientConfigOption = None,
    prompts: PromptsOption = None,
    wait: Annotated[float, typer.Option(metavar="SECONDS", help="How long to wait for a server that is loading.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False,
) -> None:
    """Examine a server, check by check: reachable, key, model, streaming, token counts, metrics, and whether a repeated
    prompt hits. Exit code 1 if there is a fault."""
    import asyncio
    import json
    from dataclasses import asdict

    from rich.console import Console

    from anaphora.lab.doctor.check import Check, Status
    from anaphora.lab.doctor.client_config import check_client_config
    from anaphora.lab.doctor.prompts import check_prompts
    from anaphora.lab.doctor.terminal import print_check
    from anaphora.lab.doctor.visits import visit_server

    if target is None and client_config is None and prompts is None:
        raise typer.BadParameter("give a server's URL, --client-config FILE or --prompts FILE", param_hint="URL")
    console = Console()
    checks: list[Check] = []
    num_shown = 0

    def show(check: Check) -> None:
        nonlocal num_shown
        num_shown += 1
        if not as_json:
            print_check(check, console)

    if client_config is not None:
        checks.append(check_client_config(client_config))
        show(checks[-1])
    for check in check_prompts(prompts) if prompts is not None else ():
        checks.append(check)
        show(check)
    if target is not None:
        waits = Console(stderr=True)
        visit = visit_server(
            target, model=model, api_key_env=api_key_env, kind=kind, wait_s=wait, on_check=show, waits=waits
        )
        checks += asyncio.run(visit)
    num_left = len(checks) - num_shown
    if as_json:
        typer.echo(json.dumps({"checks": [asdict(check) for check in checks]}, indent=2, ensure_ascii=False))
    elif num_left:
        console.print(f"{num_left} further checks rest on that")
    if any(check.status is Status.FAULT for check in checks):
        raise typer.Exit(FAULTS_EXIT_CODE)

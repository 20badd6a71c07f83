"""``anaphora fetch``: have a model on this machine, and say where."""

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb ``fetch``."""
    app.command("fetch")(_fetch)


def _fetch(
    model: Annotated[
        str | None,
        typer.Argument(help="A folder, a .gguf file or a name on the hub. Default: SmolLM2-135M-Instruct."),
    ] = None,
) -> None:
    """Fetch a model, convert it if need be, and print its folder. The second time there is nothing to do."""
    from anaphora.checkpoints import TerminalProgress, find_checkpoint

    with TerminalProgress() as progress:
        checkpoint = find_checkpoint(model, progress=progress)
    typer.echo(checkpoint.path)

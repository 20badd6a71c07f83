"""`anaphora bench gradient`."""

from typing import TYPE_CHECKING, Annotated

import typer

from anaphora.cli.numbers import parse_numbers

if TYPE_CHECKING:
    from anaphora.lab.experiments.gradient import GradientSettings


def gradient(
    *,
    lengths: Annotated[str, typer.Option(metavar="N,N,…", help="Prefix lengths in tokens.")] = "256,512,1024,2048,3072",
    repeats: Annotated[int, typer.Option(help="Requests per length and arm.")] = 5,
) -> "GradientSettings":
    """How the gain grows with the length of the shared prefix."""
    from anaphora.lab.experiments.gradient import GradientSettings

    return GradientSettings(lengths=parse_numbers(lengths, "--lengths", example="256,512,1024"), repeats=repeats)

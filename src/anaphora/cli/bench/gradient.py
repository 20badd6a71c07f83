"""`anaphora bench gradient`."""

from typing import TYPE_CHECKING, Annotated

import typer

from anaphora.cli.numbers import parse_numbers

if TYPE_CHECKING:
    from anaphora.lab.experiments.gradient import GradientSettings


def gradient(
    *,
    lengths: Annotated[
        str,
        typer.Option(
            metavar="N,N,…|max", help="Prefix lengths in tokens. max: doubled from 256 up to the target's context."
        ),
    ] = "256,512,1024,2048,3072",
    repeats: Annotated[
        int, typer.Option(help="Requests per length and arm. P90 is told from 10 on, P99 from 100 on.")
    ] = 6,
) -> "GradientSettings":
    """How the gain grows with the length of the shared prefix."""
    from anaphora.lab.experiments.gradient import UP_TO_CONTEXT, GradientSettings

    if lengths == UP_TO_CONTEXT:
        return GradientSettings(lengths=UP_TO_CONTEXT, repeats=repeats)
    numbers = parse_numbers(lengths, "--lengths", example="256,512,1024 or max")
    return GradientSettings(lengths=numbers, repeats=repeats)

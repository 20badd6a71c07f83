"""`anaphora bench costs`."""

from typing import TYPE_CHECKING, Annotated

import typer

from anaphora.cli.numbers import parse_numbers

if TYPE_CHECKING:
    from anaphora.lab.experiments.costs import CostsSettings


def costs(
    *,
    prefixes: Annotated[
        str, typer.Option(metavar="N,N,…", help="Lengths of the cached beginnings in tokens; 0: nothing cached.")
    ] = "0,512,1024,2048",
    endings: Annotated[
        str, typer.Option(metavar="N,N,…", help="Lengths of the new endings in tokens.")
    ] = "32,256,1024",
    steps: Annotated[
        int, typer.Option(help="Cuts of the staircase that shows the blocks, a few tokens apart; 0: none.")
    ] = 16,
    repeats: Annotated[int, typer.Option(help="Requests of each kind.")] = 6,
) -> "CostsSettings":
    """What a computed prompt token costs, and what a cached one: TTFT = fixed + a·computed + b·cached + c·computed² +
    d·computed·cached.

    The last term is what new tokens pay for looking at cached ones; only here do the two vary apart.
    """
    from anaphora.lab.experiments.costs import CostsSettings

    return CostsSettings(
        prefixes=parse_numbers(prefixes, "--prefixes", example="0,512,1024"),
        endings=parse_numbers(endings, "--endings", example="32,256,1024"),
        steps=steps,
        repeats=repeats,
    )

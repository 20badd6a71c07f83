"""`anaphora bench prompts`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from anaphora.lab.experiments.prompts import PromptsSettings


def prompts(
    *,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Your requests, one JSON object a line: chat bodies, batch lines, or AIPerf's. `group` names a group.",
        ),
    ],
    output_tokens: Annotated[int, typer.Option(help="Tokens of an answer.")] = 16,
    limit: Annotated[int, typer.Option(help="At most so many requests, the first of the file.")] = 60,
) -> "PromptsSettings":
    """Your own prompts, with the prefix cache on and off, group by group."""
    from anaphora.lab.experiments.prompts import PromptsSettings

    return PromptsSettings(file=str(file), output_tokens=output_tokens, limit=limit)

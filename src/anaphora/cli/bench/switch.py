"""`anaphora bench switch`."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from anaphora.lab.experiments.switch import SwitchSettings


def switch(
    *,
    prefix_tokens: Annotated[int, typer.Option(help="Length of the shared system prompt in tokens.")] = 1500,
    questions: Annotated[int, typer.Option(help="How many questions.")] = 8,
    output_tokens: Annotated[int, typer.Option(help="Tokens of an answer.")] = 64,
) -> "SwitchSettings":
    """Short questions behind one long system prompt, with the prefix cache on and off."""
    from anaphora.lab.experiments.switch import SwitchSettings

    return SwitchSettings(prefix_tokens=prefix_tokens, num_questions=questions, output_tokens=output_tokens)

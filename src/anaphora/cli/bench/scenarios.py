"""`anaphora bench scenarios`."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from anaphora.lab.experiments.scenarios import ScenariosSettings


def scenarios(
    *,
    context_tokens: Annotated[int, typer.Option(help="About how many tokens the shared part has.")] = 800,
    requests: Annotated[int, typer.Option(help="Requests of each scenario and arm.")] = 6,
    output_tokens: Annotated[int, typer.Option(help="Tokens of an answer.")] = 16,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only this scenario; may be repeated: assistant, documents, code, conversation, agents, independent.",
        ),
    ] = None,
    text_seed: Annotated[int, typer.Option(help="Which texts are chosen.")] = 0,
) -> "ScenariosSettings":
    """An assistant, shared documents, code completion, a conversation, agents with tools, and independent prompts."""
    from anaphora.lab.experiments.scenarios import ScenariosSettings

    return ScenariosSettings(
        context_tokens=context_tokens,
        requests=requests,
        output_tokens=output_tokens,
        only=tuple(only or ()),
        text_seed=text_seed,
    )

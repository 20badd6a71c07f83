"""`anaphora bench probe`."""

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Annotated, Any

import typer

from anaphora.cli.bench.command import target_parameters
from anaphora.cli.bench.run_options import RunOptions


def probe(
    *,
    prompt_words: Annotated[
        int, typer.Option(help="Length of the first prompts in words; longer ones are tried if these never hit.")
    ] = 512,
    max_tokens: Annotated[
        int, typer.Option(help="Prompt tokens that may be sent in all, cached ones included.")
    ] = 120_000,
    max_wait: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long unused prompts are waited for at most.")
    ] = 60.0,
    other_api_key_env: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The variable that holds a second key: do two keys share cached prompts?"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be sent at most, and stop.")] = False,
    lang: Annotated[
        str, typer.Option(metavar="en|zh", help="Report in English or Chinese; the prompts are English words.")
    ] = "en",
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    **target: Any,
) -> None:
    """What a prefix cache is like, from outside: block size, minimum, what is held back, branches, salts, keys,
    capacity, eviction, retention; each with how sure it is and what was seen."""
    from rich.console import Console

    from anaphora.lab.probe.session import ProbeOptions, print_costs, run_probe
    from anaphora.lab.probe.settings import ProbeSettings

    run = RunOptions(lang=lang, **target)
    settings = ProbeSettings(prompt_words=prompt_words, max_tokens=max_tokens, max_wait_s=max_wait)
    options = ProbeOptions(target=run.bench_options(), settings=settings, other_key_env=other_api_key_env)
    if dry_run:
        print_costs(options, Console())
    else:
        run_probe(options, run.out, as_json=as_json)


def probe_command() -> Callable[..., None]:
    """With the options that say whom to ask, as every experiment has them."""

    def command(**options: Any) -> None:
        probe(**options)

    own = [one for one in signature(probe).parameters.values() if one.kind is Parameter.KEYWORD_ONLY]
    command.__signature__ = Signature([*own, *target_parameters()])  # type: ignore[attr-defined]
    command.__doc__ = probe.__doc__
    return command

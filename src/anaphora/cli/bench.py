"""`anaphora bench`: the experiments against our own server or any other."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from anaphora.cli.numbers import parse_numbers


class Experiment(StrEnum):
    SWITCH = "switch"
    GRADIENT = "gradient"
    ALL = "all"


class Arms(StrEnum):
    AUTO = "auto"
    FLAG = "flag"
    SALT = "salt"
    NONCE = "nonce"


TargetOption = Annotated[
    str, typer.Option(help="'ours': a server that is started for the run; or a base URL, with or without /v1.")
]
LaunchOption = Annotated[
    str | None,
    typer.Option(
        metavar="COMMAND",
        help="Another server that is started for the run: ours:MODEL, vllm:MODEL, sglang:MODEL, llama.cpp:MODEL, or a "
        "command line with {port} and, where its cache can be switched, {prefix_flag} in it.",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(help="Ours: folder, .gguf file or hub name (default: SmolLM2-135M-Instruct). URL: the model's name."),
]
ApiKeyEnvOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The environment variable that holds the key; it is never stored."),
]
ArmsOption = Annotated[
    Arms,
    typer.Option(
        help="How off requests miss: a second server without caching (started ones only), a salt of their own, or "
        "other words in front. auto: by salt where that is proved to work, else by nonce."
    ),
]
TokenizerOption = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="Tokenizer for a target that has no /tokenize: a model folder or name."),
]
ServerOption = Annotated[
    list[str] | None,
    typer.Option(metavar="--NAME=VALUE", help="A further option of the server that is started; may be repeated."),
]
OutOption = Annotated[
    Path | None, typer.Option(help="Folder of the report (default: reports/TIME-EXPERIMENT).", file_okay=False)
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("bench")(bench)


def bench(
    experiment: Annotated[Experiment, typer.Argument(help="Which experiment.")],
    target: TargetOption = "ours",
    launch: LaunchOption = None,
    model: ModelOption = None,
    api_key_env: ApiKeyEnvOption = None,
    arms: ArmsOption = Arms.AUTO,
    lengths: Annotated[
        str, typer.Option(metavar="N,N,…", help="gradient: prefix lengths in tokens.")
    ] = "256,512,1024,2048,3072",
    repeats: Annotated[int, typer.Option(help="gradient: requests per length and arm.")] = 5,
    prefix_tokens: Annotated[int, typer.Option(help="switch: length of the shared system prompt in tokens.")] = 1500,
    questions: Annotated[int, typer.Option(help="switch: how many questions.")] = 8,
    output_tokens: Annotated[int, typer.Option(help="switch: tokens of an answer.")] = 64,
    lang: Annotated[str, typer.Option(metavar="en|zh", help="Texts in English (en) or Chinese (zh).")] = "en",
    tokenizer: TokenizerOption = None,
    seed: Annotated[int, typer.Option(help="Order of the arms and the bootstrap.")] = 0,
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long to wait for a server that is loading.")
    ] = 300.0,
    server_option: ServerOption = None,
    out: OutOption = None,
) -> None:
    """Measure what prefix caching gives: time to first token with the cache on and off, and the hit rate three ways."""
    from anaphora.lab.options import EXPERIMENTS, BenchOptions
    from anaphora.lab.session import run_session

    options = BenchOptions(
        experiments=EXPERIMENTS if experiment is Experiment.ALL else (experiment.value,),
        target=target,
        launch=launch,
        model=model,
        api_key_env=api_key_env,
        arms=arms.value,
        lengths=parse_numbers(lengths, "--lengths", example="256,512,1024"),
        repeats=repeats,
        prefix_tokens=prefix_tokens,
        num_questions=questions,
        output_tokens=output_tokens,
        lang=lang,
        tokenizer=tokenizer,
        seed=seed,
        wait_s=wait,
        server_options=tuple(server_option or ()),
    )
    run_session(options, out)

"""The options that every experiment has: whom to measure, how its arms are made, and where the report goes."""

from dataclasses import Field, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from anaphora.cli.target_options import kind_option
from anaphora.errors import ConfigError

if TYPE_CHECKING:
    from anaphora.lab.experiments.base import ExperimentSettings
    from anaphora.lab.options import BenchOptions

_TARGET, _RUN = "Target", "Run"


class Arms(StrEnum):
    AUTO = "auto"
    FLAG = "flag"
    RESTART = "restart"
    SALT = "salt"
    NONCE = "nonce"
    RESET = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """One field, one option."""

    target: Annotated[
        str,
        typer.Option(
            help="'ours': a server that is started for the run; or a base URL, with or without /v1; or the name of a "
            "profile (`anaphora profile`).",
            rich_help_panel=_TARGET,
        ),
    ] = "ours"
    compare: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET",
            help="Measure this profile or URL too, and put both side by side; --model, --kind and --api-key-env are "
            "for --target alone.",
            rich_help_panel=_TARGET,
        ),
    ] = None
    launch: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="Another server that is started for the run: ours:MODEL, vllm:MODEL, sglang:MODEL, llama.cpp:MODEL, "
            "or a command line with {port} and, where its cache can be switched, {prefix_flag} in it.",
            rich_help_panel=_TARGET,
        ),
    ] = None
    model: Annotated[
        str | None,
        typer.Option(
            help="Ours: folder, .gguf file or hub name (default: SmolLM2-135M-Instruct). URL: the model's name.",
            rich_help_panel=_TARGET,
        ),
    ] = None
    api_key_env: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The environment variable that holds the key; it is never stored.",
            rich_help_panel=_TARGET,
        ),
    ] = None
    kind: Annotated[str | None, kind_option(_TARGET)] = None
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Tokenizer for a target that has no /tokenize: a model folder or name.",
            rich_help_panel=_TARGET,
        ),
    ] = None
    wait: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="How long to wait for a server that is loading.", rich_help_panel=_TARGET),
    ] = 300.0
    server_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="--NAME=VALUE",
            help="A further option of the server that is started; may be repeated.",
            rich_help_panel=_TARGET,
        ),
    ] = None
    arms: Annotated[
        Arms,
        typer.Option(
            help="How off requests miss: a second server without caching, or the same one stopped and started again "
            "without (flag and restart: started ones only); a salt of their own; other words in front; or a reset of "
            "the whole cache before each (for everybody who uses the server). "
            "auto: by salt where that is proved to work, else by nonce.",
            rich_help_panel=_RUN,
        ),
    ] = Arms.AUTO
    lang: Annotated[
        str,
        typer.Option(metavar="en|zh", help="Prompts and report in English (en) or Chinese (zh).", rich_help_panel=_RUN),
    ] = "en"
    seed: Annotated[int, typer.Option(help="Order of the arms and the bootstrap.", rich_help_panel=_RUN)] = 0
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the report (default: reports/TIME-EXPERIMENT).", file_okay=False, rich_help_panel=_RUN
        ),
    ] = None

    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Go on with the run in this report folder, which was cut short; with the same options as then.",
            exists=True,
            file_okay=False,
            rich_help_panel=_RUN,
        ),
    ] = None
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Show what would be sent, requests and tokens, and send nothing but texts to be tokenised.",
            rich_help_panel=_RUN,
        ),
    ] = False

    def bench_options(self, *experiments: "ExperimentSettings") -> "BenchOptions":
        """What is asked of the lab."""
        from anaphora.lab.options import BenchOptions

        return BenchOptions(
            experiments=experiments,
            target=self.target,
            launch=self.launch,
            model=self.model,
            api_key_env=self.api_key_env,
            kind=self.kind,
            arms=self.arms.value,
            lang=self.lang,
            tokenizer=self.tokenizer,
            seed=self.seed,
            wait_s=self.wait,
            server_options=tuple(self.server_option or ()),
        )


def refuse_two_ways(run: RunOptions) -> None:
    """Raises :class:`ConfigError` where a run is to be shown and gone on with at once."""
    if run.resume is not None and run.dry_run:
        raise ConfigError("--dry-run shows a whole run: leave out --resume")


def is_about_target(entry: "Field[Any]") -> bool:
    """Whether an option says whom to measure rather than how."""
    return bool(get_args(entry.type)[1].rich_help_panel == _TARGET)

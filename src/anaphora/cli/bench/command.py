"""From an experiment's own options to a whole command: those that every run has are added to its signature."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import fields
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_args

from anaphora.cli.bench.run_options import RunOptions, is_about_target, refuse_two_ways
from anaphora.errors import ConfigError

if TYPE_CHECKING:
    from anaphora.lab.experiments.base import ExperimentSettings

OwnOptions: TypeAlias = "Callable[..., ExperimentSettings]"
"""Takes an experiment's own options by keyword and makes its settings; its docstring is the command's help."""


def run_experiments(settings: "Sequence[ExperimentSettings]", run: RunOptions) -> None:
    """Run these experiments, one after another, on one target, or on two of them."""
    from anaphora.lab.pair import run_pair
    from anaphora.lab.session import run_dry, run_session

    options = run.bench_options(*settings)
    if run.compare is not None and (run.resume is not None or run.dry_run):
        raise ConfigError("--compare measures two targets: leave out --resume and --dry-run, or ask of one target")
    refuse_two_ways(run)
    if run.compare is not None:
        run_pair(options, run.compare, run.out)
    elif run.dry_run:
        run_dry(options)
    else:
        run_session(options, run.out, resumes=run.resume)


def command_of(
    *experiments: Callable[..., Any],
    help_text: str | None = None,
    run_them: Callable[[list[Any], RunOptions], None] = run_experiments,
) -> Callable[..., None]:
    """The command that reads these experiments' own options and those of every run, and has ``run_them`` measure."""

    def command(**options: Any) -> None:
        settings = [own(**{name: options.pop(name) for name in signature(own).parameters}) for own in experiments]
        run_them(settings, RunOptions(**options))

    own_parameters = [
        parameter if len(experiments) == 1 else _in_panel(own.__name__, parameter)
        for own in experiments
        for parameter in signature(own).parameters.values()
    ]
    command.__signature__ = Signature([*own_parameters, *_shared_parameters()])  # type: ignore[attr-defined]
    command.__doc__ = help_text or experiments[0].__doc__
    return command


def _shared_parameters() -> list[Parameter]:
    return [
        Parameter(entry.name, Parameter.KEYWORD_ONLY, default=entry.default, annotation=entry.type)
        for entry in fields(RunOptions)
    ]


def target_parameters() -> list[Parameter]:
    """The shared options that say whom to ask and where the report goes, for what has no arms."""
    of_target = {entry.name for entry in fields(RunOptions) if is_about_target(entry)} | {"out"}
    return [parameter for parameter in _shared_parameters() if parameter.name in of_target]


def _in_panel(title: str, parameter: Parameter) -> Parameter:
    """The same option, shown below a heading of its own."""
    kind, option = get_args(parameter.annotation)
    shown = copy(option)
    shown.rich_help_panel = title.capitalize()
    return parameter.replace(annotation=Annotated[kind, shown])

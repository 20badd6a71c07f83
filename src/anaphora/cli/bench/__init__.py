"""`anaphora bench`: the experiments against our own server or any other, one sub-command each."""

from collections.abc import Mapping

import typer

from anaphora.cli.bench.command import OwnOptions, command_of
from anaphora.cli.bench.costs import costs
from anaphora.cli.bench.gradient import gradient
from anaphora.cli.bench.load import load, run_load
from anaphora.cli.bench.probe import probe_command
from anaphora.cli.bench.prompts import prompts
from anaphora.cli.bench.scenarios import scenarios
from anaphora.cli.bench.switch import switch

EXPERIMENTS: Mapping[str, OwnOptions] = {
    "switch": switch,
    "gradient": gradient,
    "costs": costs,
    "scenarios": scenarios,
    "prompts": prompts,
}


def register(app: typer.Typer) -> None:
    """Add the verb."""
    bench = typer.Typer(
        no_args_is_help=True,
        help="Measure what prefix caching gives: time to first token with the cache on and off, and the hit rate three "
        "ways.",
    )
    for name, own_options in EXPERIMENTS.items():
        bench.command(name)(command_of(own_options))
    bench.command("load")(command_of(load, run_them=run_load))
    bench.command("probe")(probe_command())
    bench.command("all")(command_of(switch, gradient, help_text="Switch and gradient in one run, with one report."))
    app.add_typer(bench, name="bench")

"""A typer command whose options are the settings: one option each, and a pair of flags for each switch.

Values stay text here. The same checks as for the YAML file turn them into their types, so both are told wrong alike.
"""

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer

from anaphora.cli.serve_settings import Setting, serve_settings
from anaphora.errors import ConfigError


def with_settings(run: Callable[..., None]) -> Callable[..., None]:
    """A command that calls ``run(given, config, dry_run)``; ``given`` has the settings that were typed, by name."""

    def command(config: Path | None, dry_run: bool, **options: Any) -> None:
        run(_given(options), config, dry_run)

    parameters = [parameter for setting in serve_settings().values() for parameter in _parameters(setting)]
    command.__signature__ = Signature([*parameters, *_OWN])  # type: ignore[attr-defined]
    command.__doc__ = run.__doc__
    return command


_OWN = (
    Parameter(
        "config",
        Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[
            Path | None,
            typer.Option(
                help="YAML file with the same names as keys; the command line goes first.", show_default=False
            ),
        ],
    ),
    Parameter(
        "dry_run",
        Parameter.KEYWORD_ONLY,
        default=False,
        annotation=Annotated[
            bool, typer.Option("--dry-run", help="Print the settings as JSON and exit.", show_default=False)
        ],
    ),
)


def _parameters(setting: Setting) -> list[Parameter]:
    if setting.name == "model":
        return [_parameter("model", str | None, typer.Argument(help=setting.flag.help, show_default=False))]
    if setting.is_switch:
        state = "on" if setting.default else "off"
        return [
            _parameter(setting.name, bool, _option(setting, setting.option, f"{setting.flag.help} (default: {state})")),
            _parameter(f"no_{setting.name}", bool, _option(setting, _off(setting), f"Undo {setting.option}.")),
        ]
    kind = list[str] | None if setting.is_many else str | None
    default = setting.flag.default or ("" if setting.default is None else str(setting.default))
    about = f"{setting.flag.help} One of: {', '.join(setting.choices)}." if setting.choices else setting.flag.help
    shown = f"{about} (default: {default})" if default else about
    return [_parameter(setting.name, kind, _option(setting, setting.option, shown, metavar=setting.flag.metavar))]


def _parameter(name: str, kind: Any, info: Any) -> Parameter:
    default = False if kind is bool else None
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info])


def _option(setting: Setting, flag: str, shown: str, metavar: str | None = None) -> Any:
    return typer.Option(flag, help=shown, show_default=False, rich_help_panel=setting.flag.panel, metavar=metavar)


def _off(setting: Setting) -> str:
    return setting.option.replace("--", "--no-", 1)


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """What was typed, without what was left out.

    Raises:
        ConfigError: a switch was turned on and off at once.
    """
    given: dict[str, Any] = {}
    for name, setting in serve_settings().items():
        value, is_off = options[name], options.get(f"no_{name}", False)
        if value and is_off:
            raise ConfigError(f"{setting.option} and {_off(setting)} exclude each other: give one of them")
        if is_off:
            given[name] = False
        elif value not in (None, False, []):
            given[name] = value
    return given

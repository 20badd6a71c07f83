"""`anaphora profile`: named targets, so that address, key variable, model and prices need not be said again."""

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaphora.cli.target_options import kind_option
from anaphora.errors import ConfigError

if TYPE_CHECKING:
    from anaphora.lab.money import Prices
    from anaphora.lab.profiles.profile import Profile

_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)


def _price(what: str) -> Any:
    return typer.Option(metavar="AMOUNT", help=f"For a million {what}.", rich_help_panel="Prices")


def register(app: typer.Typer) -> None:
    """Add the verb."""
    profile = typer.Typer(
        no_args_is_help=True,
        help="Named targets for `anaphora bench --target NAME` and `anaphora doctor NAME`; keys stay outside.",
    )
    for name, command in (("add", add), ("list", list_all), ("show", show), ("remove", remove)):
        profile.command(name)(command)
    app.add_typer(profile, name="profile")


def add(
    name: Annotated[str, typer.Argument(help="The profile's name.")],
    url: Annotated[
        str | None, typer.Argument(metavar="[URL]", help="Base URL, with or without /v1; not needed with --preset.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(metavar="NAME", help="Begin with what is known of a service, such as taotoken.")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="The environment variable that holds the key.")
    ] = None,
    base_url_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="An environment variable that, where set, holds the base URL.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model's name.")] = None,
    kind: Annotated[str | None, kind_option()] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'NAME: VALUE'",
            help="A further header; a value '$VARIABLE' is taken from the environment. May be repeated.",
        ),
    ] = None,
    price_input: Annotated[float | None, _price("input tokens")] = None,
    price_output: Annotated[float | None, _price("output tokens")] = None,
    price_cached: Annotated[float | None, _price("tokens read from the cache (default: as input)")] = None,
    price_written: Annotated[float | None, _price("tokens written into the cache (default: as input)")] = None,
    currency: Annotated[str, typer.Option(help="Of the prices.", rich_help_panel="Prices")] = "USD",
    replace: Annotated[bool, typer.Option("--replace", help="Take the place of a profile of that name.")] = False,
) -> None:
    """Add a profile."""
    from dataclasses import replace as changed

    from anaphora.lab.address import looks_like_address
    from anaphora.lab.profiles.profile import Profile
    from anaphora.lab.profiles.store import ProfileStore

    begin = None if preset is None else _preset(preset)
    if begin is None and url is None:
        raise ConfigError("a profile needs a base URL: `anaphora profile add NAME URL`, or --preset")
    if url is not None and not looks_like_address(url):
        raise ConfigError(f"{url!r} is no base URL: write it like http://127.0.0.1:8000")
    said: dict[str, Any] = {
        "base_url": url,
        "api_key_env": api_key_env,
        "base_url_env": base_url_env,
        "model": model,
        "kind": kind,
        "headers": dict(_header(text) for text in header or ()) or None,
        "prices": _prices(price_input, price_output, price_cached, price_written, currency),
    }
    said = {key: value for key, value in said.items() if value is not None}
    if begin is not None and url is not None:
        said.setdefault("base_url_env", None)  # the address that is said comes first
    profile = Profile(name=name, **said) if begin is None else changed(begin, name=name, **said)
    store = ProfileStore()
    store.add(profile, replace=replace)
    typer.echo(f"added {name} to {store.path}")
    if (prices := profile.prices) is not None and prices.cached is not None and prices.cached > prices.input:
        typer.echo("tokens read from the cache cost more than other input by these prices: is that right?", err=True)
    if profile.api_key_env is not None:
        _tell_if_unset(profile.api_key_env)


def list_all() -> None:
    """List the profiles, one's own and the presets."""
    from rich.console import Console

    from anaphora.lab.profiles.store import ProfileStore
    from anaphora.report.tables import Table
    from anaphora.report.terminal import print_table

    store = ProfileStore()
    own = store.own()
    rows = tuple(
        (name, profile.base_url, profile.model or "–", profile.api_key_env or "–", "" if name in own else "preset")
        for name, profile in store.all().items()
    )
    print_table(Table("Profiles", ("<name", "<base URL", "<model", "<key in", "<"), rows), Console())


def show(name: Annotated[str, typer.Argument(help="The profile's name.")]) -> None:
    """Show one profile. Values of headers are masked; keys are not there to be shown."""
    from anaphora.lab.profiles.store import ProfileStore

    profiles = ProfileStore().all()
    if name not in profiles:
        raise ConfigError(f"no profile is called {name!r}: `anaphora profile list` shows them")
    profile = profiles[name]
    for key, value in {**profile.as_stored(), "headers": profile.shown_headers()}.items():
        if isinstance(value, dict):
            for inner, text in value.items():
                typer.echo(f"{key}.{inner} = {text}")
        else:
            typer.echo(f"{key} = {value}")
    for variable in filter(None, (profile.base_url_env, profile.api_key_env)):
        _tell_if_unset(variable)


def remove(name: Annotated[str, typer.Argument(help="The profile's name.")]) -> None:
    """Remove a profile."""
    from anaphora.lab.profiles.store import ProfileStore

    store = ProfileStore()
    store.remove(name)
    typer.echo(f"removed {name} from {store.path}")


def _tell_if_unset(variable: str) -> None:
    import os

    if not os.environ.get(variable):
        typer.echo(f"the environment variable {variable} is not set at the moment", err=True)


def _preset(name: str) -> "Profile":
    from anaphora.lab.profiles.presets import PRESETS

    if name not in PRESETS:
        raise ConfigError(f"no preset is called {name!r}: there are {', '.join(PRESETS)}")
    return PRESETS[name]


def _prices(
    input_: float | None, output: float | None, cached: float | None, written: float | None, currency: str
) -> "Prices | None":
    from anaphora.lab.money import Prices

    if input_ is None and output is None and cached is None and written is None:
        return None
    if input_ is None or output is None:
        raise ConfigError("prices need both --price-input and --price-output")
    return Prices(input=input_, output=output, cached=cached, written=written, currency=currency)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    name, value = name.strip(), value.strip()
    if not colon or not name or not value:
        raise ConfigError("--header takes 'NAME: VALUE'")
    if _SECRET_HEADER.search(name) and not value.startswith("$"):
        raise ConfigError(
            f"the header {name} looks like one that holds a secret: put it into an environment variable and write "
            f"--header '{name}: $VARIABLE' (in single quotes)"
        )
    return name, value

"""Where settings come from: command line beats file beats default, and whatever is wrong is told in one line."""

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anaphora.cli.serve_settings import ServeSettings, Setting, serve_settings
from anaphora.errors import ConfigError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?", re.IGNORECASE)

_LONGEST_SIZE = 40
"""Characters; more are no size of anything, and overflow."""


def resolve(command_line: Mapping[str, Any], config: Path | None) -> ServeSettings:
    """The settings of a command line (text as typed, only what was given) and a YAML file.

    Raises:
        ConfigError: a file, a key or a value is wrong.
    """
    from_file = {} if config is None else read_config(config)
    typed = {
        name: _checked(serve_settings()[name], value, serve_settings()[name].option, strict=False)
        for name, value in command_line.items()
    }
    return ServeSettings(**{**from_file, **typed})


def parse_size(text: str, label: str) -> int:
    """Bytes of a size such as ``24GiB``.

    Raises:
        ConfigError: it is none, or zero.
    """
    value = _bytes_of(text)
    if not isinstance(value, int) or value < 1:
        raise ConfigError(f"{label} must be a number of bytes, such as 1GiB, got {text!r}")
    return value


def read_config(path: Path) -> dict[str, Any]:
    """Settings of a YAML file: keys with dashes or underscores, values of the settings' own types.

    Raises:
        ConfigError: it cannot be read, is no mapping, or has an unknown key, a key twice or a wrong value.
    """
    found: dict[str, Any] = {}
    for key, value in _read_mapping(path).items():
        setting = serve_settings().get(str(key).replace("-", "_"))
        if setting is None:
            raise ConfigError(f"{path}: unknown key {key!r}{_nearest(str(key))}")
        if setting.name in found:
            raise ConfigError(f"{path}: {setting.name} is there twice, with dashes and with underscores")
        found[setting.name] = _checked(setting, value, f"{path}: {key}", strict=True)
    return found


def _read_mapping(path: Path) -> Mapping[Any, Any]:
    import yaml

    try:
        text = path.read_text("utf-8")
        content, node = yaml.safe_load(text), yaml.compose(text, Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"cannot read the config file {path}: {reason}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must have keys with values, such as 'port: 8000'")
    assert isinstance(node, yaml.MappingNode)
    keys = [key.value for key, _ in node.value]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:  # YAML's reader lets the last one win without a word
        raise ConfigError(f"{path}: the key {twice!r} is there twice: keep one of them")
    return content


def _nearest(key: str) -> str:
    close = difflib.get_close_matches(key.replace("-", "_"), serve_settings(), n=1)
    return f": did you mean {close[0].replace('_', '-')}?" if close else ""


def _checked(setting: Setting, value: Any, label: str, *, strict: bool) -> Any:
    """``value`` as the setting's type. ``strict``: it has a type already, and text is no number."""
    from pydantic import TypeAdapter, ValidationError

    if setting.is_many and isinstance(value, str | list):
        value = (value,) if isinstance(value, str) else tuple(value)
    if setting.flag.is_size:
        value = _bytes_of(value)
    try:
        return TypeAdapter(setting.hint).validate_python(value, strict=strict)
    except ValidationError as error:
        told = error.errors(include_url=False)[0]["msg"].partition(", unable")[0]
        told = told.replace("a valid tuple", "a string or a list of strings")
        message = told.replace("Input should", "must").replace("String should", "must")
        if setting.flag.is_size and not isinstance(value, int):
            message = "must be a number of bytes, such as 1GiB"
        shown = "" if "key" in setting.name else f", got {value!r}"
        raise ConfigError(f"{label} {message}{shown}") from None


def _bytes_of(value: Any) -> Any:
    """``1GiB`` as a number; whatever is no size comes back as it is, for the type's check to refuse."""
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or len(value) > _LONGEST_SIZE:
        return value
    return int(float(found[1]) * _UNITS[(found[2] or "").lower()])

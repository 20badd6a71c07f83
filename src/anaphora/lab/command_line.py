"""Settings as the words of a command line, so that every run says how to ask the same again."""

from collections.abc import Mapping
from dataclasses import Field, fields
from typing import Any

from anaphora.errors import ConfigError

_FLAG = "flag"


def named(flag: str) -> Mapping[str, str]:
    """Metadata of a field whose option has another name than the field; without a name it is an argument."""
    return {_FLAG: flag}


def flag_of(entry: "Field[Any]") -> str:
    """``--name`` of a setting; empty for an argument."""
    name = str(entry.metadata.get(_FLAG, entry.name.removesuffix("_s").replace("_", "-")))
    return f"--{name}" if name else ""


def words_of(settings: Any) -> list[str]:
    """What differs from the defaults of a settings dataclass; fields that are no part of its repr are left out."""
    words: list[str] = []
    for entry in fields(settings):
        value = getattr(settings, entry.name)
        if entry.repr and value != entry.default:
            words += _as_words(flag_of(entry), value)
    return words


def at_least(settings: Any, **least: int) -> None:
    """Raise :class:`ConfigError` for a setting that is less than it may be."""
    for entry in fields(settings):
        if entry.name in least and getattr(settings, entry.name) < least[entry.name]:
            raise ConfigError(f"{flag_of(entry)} must be at least {least[entry.name]}")


def _as_words(flag: str, value: Any) -> list[str]:
    if value is True:
        return [flag]
    if isinstance(value, tuple) and value and isinstance(value[0], str):
        return [word for one in value for word in (flag, one)]
    if isinstance(value, tuple):
        value = ",".join(str(one) for one in value)
    elif isinstance(value, float):
        value = f"{value:g}"
    return [flag, str(value)] if flag else [str(value)]

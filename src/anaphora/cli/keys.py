"""API keys and the admin key: from the environment, a file or the command line, and never shown again."""

import os
from collections.abc import Mapping
from pathlib import Path

from anaphora.cli.serve_settings import ServeSettings
from anaphora.errors import ConfigError

API_KEY_VARIABLE = "ANAPHORA_API_KEY"
ADMIN_KEY_VARIABLE = "ANAPHORA_ADMIN_KEY"


def api_keys(settings: ServeSettings, environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """All API keys, from all three places, each once.

    Raises:
        ConfigError: a key is empty, or the file cannot be read or has none.
    """
    keys = [*settings.api_key]
    if settings.api_key_file is not None:
        keys += _lines(settings.api_key_file, "--api-key-file")
    if environment.get(API_KEY_VARIABLE):
        keys.append(environment[API_KEY_VARIABLE])
    if not all(keys):
        raise ConfigError("--api-key must not be empty")
    return tuple(dict.fromkeys(keys))


def admin_key(settings: ServeSettings, environment: Mapping[str, str] = os.environ) -> str | None:
    """The admin key: command line before file before environment.

    Raises:
        ConfigError: it is empty, or the file cannot be read or has no key or several.
    """
    if settings.admin_key is not None:
        if not settings.admin_key:
            raise ConfigError("--admin-key must not be empty")
        return settings.admin_key
    if settings.admin_key_file is not None:
        lines = _lines(settings.admin_key_file, "--admin-key-file")
        if len(lines) > 1:
            raise ConfigError(f"--admin-key-file {settings.admin_key_file} must have one line, it has {len(lines)}")
        return lines[0]
    return environment.get(ADMIN_KEY_VARIABLE) or None


def _lines(file: str, option: str) -> list[str]:
    """The lines of a key file without blank ones and comments."""
    try:
        text = Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"cannot read {option} {file}: {reason}") from None
    stripped = (line.strip() for line in text.splitlines())
    lines = [line for line in stripped if line and not line.startswith("#")]
    if not lines:
        raise ConfigError(f"{option} {file} has no key in it")
    return lines

"""A client's settings: base URL, key and model must all be there, or the client falls back to its maker's own service.

Coding clients and libraries name the three in their own ways, flat or nested. A lacking base URL shows itself as a
failed log-in: the client then sends the key to a service that never gave it out.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from anaphora.errors import ConfigError
from anaphora.lab.doctor.check import Check, fault, ok

_NAMES = {
    "base URL": re.compile(r"(?:^|_)(?:base_?url|api_?base|endpoint|api_?url|host)$"),
    "key": re.compile(r"(?:^|_)(?:api_?key|auth_?token|api_?token|key|env_?key|api_?key_?env)$"),
    "model": re.compile(r"(?:^|_)(?:model|model_?id|model_?name|default_?model)$"),
}
_ADVICE = {
    "base URL": "the address of your server (without it the client asks its maker's own service and the log-in fails)",
    "key": "the key of that server, or the name of the environment variable that holds it",
    "model": "the model's name as the server lists it",
}


def check_client_config(path: Path) -> Check:
    """Which of the three are there. No value is shown: one of them is the key.

    Raises:
        ConfigError: the file cannot be read as JSON, TOML, YAML or lines of NAME=VALUE.
    """
    found = {
        what
        for name, value in _settings(_read(path))
        for what, pattern in _NAMES.items()
        if value not in (None, "") and pattern.search(_snake(name))
    }
    lacking = [what for what in _NAMES if what not in found]
    name = "client config"
    if not lacking:
        return ok(name, "base URL, key and model are all there")
    has = " and ".join(what for what in _NAMES if what in found) or "none of base URL, key and model"
    fix = "; ".join(f"{what}: {_ADVICE[what]}" for what in lacking)
    return fault(name, f"the file names {has}, and lacks {' and '.join(lacking)}", f"add {fix}")


def _read(path: Path) -> Any:
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is not UTF-8'}") from error
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if path.suffix not in (".json", ".toml", ".yaml", ".yml") and lines and all("=" in line for line in lines):
        pairs = (line.strip().removeprefix("export ").partition("=") for line in lines)
        return {name.strip(): value.strip().strip("'\"") for name, _, value in pairs}
    for parse in (json.loads, tomllib.loads, yaml.safe_load):
        try:
            value = parse(text)
        except (ValueError, yaml.YAMLError):
            continue
        if value and isinstance(value, Mapping | list):
            return value
    raise ConfigError(f"{path} is no JSON, TOML, YAML or .env file with settings in it")


def _settings(value: Any) -> Iterator[tuple[str, Any]]:
    """Every named value, however deep."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if isinstance(inner, Mapping | list):
                yield from _settings(inner)
            else:
                yield str(name), inner
    elif isinstance(value, list):
        for inner in value:
            yield from _settings(inner)


def _snake(name: str) -> str:
    """``baseURL``, ``Base-Url`` and ``BASE_URL`` alike."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_").replace(".", "_")

"""The file of profiles: TOML in the user's configuration folder, readable by its owner alone."""

import json
import os
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anaphora.errors import ConfigError
from anaphora.lab.profiles.presets import PRESETS
from anaphora.lab.profiles.profile import Profile

CONFIG_VARIABLE = "ANAPHORA_CONFIG"
_FILE = "profiles.toml"
_HEAD = "# Profiles of `anaphora`. Keys stay in environment variables: only their names stand here.\n"


def config_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """``$ANAPHORA_CONFIG``, else ``anaphora`` in ``$XDG_CONFIG_HOME`` or ``~/.config``."""
    own = environment.get(CONFIG_VARIABLE)
    if own:
        return Path(own).expanduser().absolute()
    config = environment.get("XDG_CONFIG_HOME")
    return (Path(config) if config else Path.home() / ".config").expanduser().absolute() / "anaphora"


class ProfileStore:
    """Reads and writes the profiles. Raises :class:`ConfigError` for a file that cannot be read or written."""

    def __init__(self, folder: Path | None = None) -> None:
        self.path = (folder or config_folder()) / _FILE

    def own(self) -> dict[str, Profile]:
        """The profiles of the file by name; none if there is no file."""
        try:
            text = self.path.read_text("utf-8")
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise ConfigError(f"cannot read {self.path}: {reason}") from None
        try:
            tables = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{self.path} is no TOML: {error}") from None
        stray = next((name for name, table in tables.items() if not isinstance(table, dict)), None)
        if stray is not None:
            raise ConfigError(f"{self.path}: {stray!r} stands outside of a profile: write it below a [name]")
        return {name: self._read(name, table) for name, table in tables.items()}

    def _read(self, name: str, table: Mapping[str, Any]) -> Profile:
        """One of the file's. What is wrong with it is told with the place: a file has many, and the one that is
        asked for may be another."""
        try:
            return Profile.from_stored(name, table)
        except ConfigError as error:
            told = str(error).removeprefix(f"profile {name}: ")
            raise ConfigError(f"{self.path}, profile {name}: {told}") from None

    def all(self) -> dict[str, Profile]:
        """Presets too."""
        return {**PRESETS, **self.own()}

    def add(self, profile: Profile, *, replace: bool = False) -> None:
        """Write one more. One that is there already is only replaced if that is asked for."""
        profiles = self.own()
        if profile.name in profiles and not replace:
            raise ConfigError(f"there is a profile {profile.name} already: remove it first, or add --replace")
        self._write({**profiles, profile.name: profile})

    def remove(self, name: str) -> None:
        """Forget one."""
        profiles = self.own()
        if name not in profiles:
            is_preset = " (it is a preset, which is always there)" if name in PRESETS else ""
            raise ConfigError(f"{self.path} has no profile {name!r}{is_preset}: `anaphora profile list` shows them")
        del profiles[name]
        self._write(profiles)

    def _write(self, profiles: Mapping[str, Profile]) -> None:
        """All or nothing: the new file takes the old one's place once it is whole."""
        text = _HEAD + "".join(_as_toml(name, profile.as_stored()) for name, profile in profiles.items())
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", dir=self.path.parent, prefix=".profiles-", delete=False
            ) as file:
                file.write(text)
            Path(file.name).replace(self.path)
        except OSError as error:
            raise ConfigError(
                f"cannot write {self.path}: {error.strerror}: choose another folder with {CONFIG_VARIABLE}"
            ) from None


def _as_toml(name: str, value: Mapping[str, Any]) -> str:
    """One profile as a table, with its own tables below it."""
    plain = {key: entry for key, entry in value.items() if not isinstance(entry, dict)}
    tables = {key: entry for key, entry in value.items() if isinstance(entry, dict)}
    lines = ["", f"[{_text(name)}]", *(f"{key} = {_value(entry)}" for key, entry in plain.items())]
    for key, table in tables.items():
        lines += ["", f"[{_text(name)}.{key}]", *(f"{_text(k)} = {_value(v)}" for k, v in table.items())]
    return "\n".join(lines) + "\n"


def _value(value: str | float) -> str:
    return _text(value) if isinstance(value, str) else repr(value)


def _text(text: str) -> str:
    """TOML's basic strings escape as JSON's do, and the delete character too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

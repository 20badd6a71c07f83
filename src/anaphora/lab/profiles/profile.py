"""One named target, checked; the key itself is never in it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anaphora.errors import ConfigError
from anaphora.lab.address import BaseUrl
from anaphora.lab.dialects import dialect_named
from anaphora.lab.masking import MASK
from anaphora.lab.money import Prices

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OWN_HEADERS = ("host", "content-length", "transfer-encoding", "connection", "accept-encoding")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """``base_url`` or, if it is set, the value of the variable ``base_url_env``; ``headers``: further ones, whose value
    is a text or ``$NAME`` of the environment variable that holds it."""

    name: str
    base_url: str
    base_url_env: str | None = None
    api_key_env: str | None = None
    model: str | None = None
    kind: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    prices: Prices | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name == "ours":
            raise ConfigError(
                f"{self.name!r} cannot name a profile: use letters, digits, dot, dash and underscore, and not 'ours'"
            )
        BaseUrl.parse(self.base_url)
        for variable in (self.api_key_env, self.base_url_env):
            if variable is not None and not _VARIABLE.fullmatch(variable):
                raise ConfigError(
                    "the name of an environment variable is wanted, not the key itself: put the key into a variable "
                    "and give the variable's name"
                )
        if self.kind is not None:
            dialect_named(self.kind)
        for header, value in self.headers.items():
            if not _HEADER.fullmatch(header) or header.lower() in _OWN_HEADERS:
                raise ConfigError(f"{header!r} cannot be a further header")
            if not (value.isascii() and value.isprintable()):
                raise ConfigError(f"the value of the header {header} holds characters that no HTTP header can carry")

    def shown_headers(self) -> dict[str, str]:
        """For people: a value that is not taken from a variable may be a secret and is masked."""
        return {header: value if value.startswith("$") else MASK for header, value in self.headers.items()}

    @classmethod
    def from_stored(cls, name: str, value: Mapping[str, Any]) -> "Profile":
        """From a table of the file. Raises :class:`ConfigError` with the key that is wrong."""
        known = {"base_url": str, "base_url_env": str, "api_key_env": str, "model": str, "kind": str}
        tables = {"headers": dict, "prices": dict}
        for key, entry in value.items():
            wanted = {**known, **tables}.get(key)
            if wanted is None:
                raise ConfigError(f"profile {name}: unknown key {key!r}; there are {', '.join((*known, *tables))}")
            if not isinstance(entry, wanted):
                raise ConfigError(f"profile {name}: {key} must be {'a text' if wanted is str else 'a table'}")
        if "base_url" not in value:
            raise ConfigError(f"profile {name}: base_url is missing")
        plain = {key: entry for key, entry in value.items() if key in known}
        headers = {str(key): str(entry) for key, entry in value.get("headers", {}).items()}
        return cls(name=name, headers=headers, prices=_prices(name, value.get("prices")), **plain)

    def as_stored(self) -> dict[str, Any]:
        """As the file has it: without what is not said."""
        plain = {key: getattr(self, key) for key in ("base_url", "base_url_env", "api_key_env", "model", "kind")}
        tables: dict[str, Any] = {
            "headers": dict(self.headers),
            "prices": {} if self.prices is None else self.prices.as_stored(),
        }
        return {key: value for key, value in {**plain, **tables}.items() if value}


def _prices(name: str, value: Mapping[str, Any] | None) -> Prices | None:
    if not value:
        return None
    numbers = {key: entry for key, entry in value.items() if key != "currency"}
    unknown = [key for key in numbers if key not in ("input", "output", "cached", "written")]
    wrong = [key for key, entry in numbers.items() if isinstance(entry, bool) or not isinstance(entry, int | float)]
    lacking = [key for key in ("input", "output") if key not in numbers]
    if unknown or wrong or lacking or not isinstance(value.get("currency", ""), str):
        raise ConfigError(
            f"profile {name}: prices takes input and output, and may take cached and written (numbers for a million "
            "tokens) and currency"
        )
    return Prices.from_stored(value)

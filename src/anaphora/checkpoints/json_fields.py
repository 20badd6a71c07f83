"""Typed reading of a checkpoint's JSON files: what is missing or mistyped is an error that names key and file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anaphora.errors import CheckpointError


def read_json_object(path: Path) -> dict[str, Any]:
    """The JSON object in ``path``.

    Raises:
        CheckpointError: the file is missing, unreadable, no JSON, or no object.
    """
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing: a model folder needs it") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged: it is no valid JSON ({error})") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} is damaged: it holds no JSON object")
    return value


class Fields:
    """Keys of one JSON object; a ``null`` counts as missing."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._values = values
        self.where = where

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def raw(self, key: str) -> Any:
        """The value as it stands; ``None`` when missing."""
        return self._values.get(key)

    def error(self, key: str, wanted: str) -> CheckpointError:
        """What to raise about ``key``."""
        return CheckpointError(f"{self.where}: {key} = {json.dumps(self._values.get(key))} {wanted}")

    def integer(self, key: str, default: int | None = None, *, low: int = 1) -> int:
        """A whole number of at least ``low``; missing without a default is an error."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            raise self.error(key, f"must be a whole number of at least {low}")
        return value

    def optional_integer(self, key: str) -> int | None:
        """A whole number, or ``None`` when missing."""
        return self.integer(key, low=0) if key in self else None

    def number(self, key: str, default: float | None = None) -> float:
        """A positive finite number; missing without a default is an error."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise self.error(key, "must be a positive number")
        return float(value)

    def optional_number(self, key: str) -> float | None:
        """A positive number, or ``None`` when missing."""
        return self.number(key) if key in self else None

    def flag(self, key: str, default: bool) -> bool:
        """A truth value."""
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise self.error(key, "must be true or false")
        return value

    def token_ids(self, key: str) -> tuple[int, ...]:
        """One token id or a list of them; empty when missing."""
        value = self.raw(key)
        ids = value if isinstance(value, list) else [] if value is None else [value]
        if any(isinstance(i, bool) or not isinstance(i, int) or i < 0 for i in ids):
            raise self.error(key, "must be a token id or a list of them")
        return tuple(ids)

    def _get(self, key: str, default: Any) -> Any:
        value = self._values.get(key)
        if value is not None:
            return value
        if default is None:
            raise CheckpointError(f"{self.where}: {key} is missing")
        return default

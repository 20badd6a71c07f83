"""Typed reading of the metadata below ``<architecture>.`` in a GGUF file."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from anaphora.errors import CheckpointError


class ArchitectureKeys:
    """Keys without their ``<architecture>.``. A list of one value per layer counts as that value if all are equal."""

    def __init__(self, metadata: Mapping[str, Any], architecture: str, where: str) -> None:
        self._metadata = metadata
        self._prefix = f"{architecture}."
        self._where = where

    def refuse_all_but(self, understood: Collection[str], *, off_when_zero: Collection[str]) -> None:
        """Raise about a key that is neither understood nor a switch that is off."""
        for name, value in self._metadata.items():
            key = name.removeprefix(self._prefix)
            if key != name and key not in understood and not (key in off_when_zero and not value):
                raise self.error(key, "is not understood and may change what the model computes")

    def get(self, key: str, default: Any = None) -> Any:
        """The value as it stands."""
        value = self._metadata.get(self._prefix + key, default)
        if not isinstance(value, list):
            return value
        if len(value) == 0 or any(item != value[0] for item in value):
            raise self.error(key, "differs between layers: not supported")
        return value[0]

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number; missing without a default is an error."""
        value = self._required(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, "must be a whole number")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A number; missing without a default is an error."""
        value = self._required(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, "must be a number")
        return shortest(value)

    def error(self, key: str, wanted: str) -> CheckpointError:
        """What to raise about ``key``."""
        value = self._metadata.get(self._prefix + key)
        return CheckpointError(f"{self._where}: {self._prefix}{key} = {value!r:.80} {wanted}")

    def _required(self, key: str, default: Any) -> Any:
        value = self.get(key, default)
        if value is None:
            raise CheckpointError(f"{self._where}: {self._prefix}{key} is missing")
        return value


def shortest(value: float) -> float:
    """A float32 as the decimal number that was meant: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(value)))

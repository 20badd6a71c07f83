"""Keys never leave the process by way of what a server echoes: they are masked before anything is kept or shown."""

from collections.abc import Iterable

MASK = "•••"
_SHORTEST = 8
"""A shorter value is a stand-in such as ``EMPTY``: masking it would only spoil words."""


class Masking:
    """Knows the secret values, and shows none: neither in its own text nor in what goes through it."""

    __slots__ = ("_values",)

    def __init__(self, secrets: Iterable[str | None] = ()) -> None:
        whole = {secret.strip() for secret in secrets if secret}
        parts = {word for secret in whole for word in (secret, secret.rpartition(" ")[2])}  # "Bearer KEY"
        self._values = sorted((part for part in parts if len(part) >= _SHORTEST), key=len, reverse=True)

    def text(self, text: str) -> str:
        """The text with every secret in it masked."""
        for value in self._values:
            text = text.replace(value, MASK)
        return text

    def data(self, data: bytes) -> bytes:
        """The same for bytes in UTF-8."""
        for value in self._values:
            data = data.replace(value.encode(), MASK.encode())
        return data

    def __repr__(self) -> str:
        return f"Masking({len(self._values)} values)"

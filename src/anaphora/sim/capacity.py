"""Cache sizes as people write them: ``10k`` blocks, ``5%`` of the working set, ``2x``, ``8GiB@MODEL``, ``inf``."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from anaphora.errors import ConfigError

_THOUSANDS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3}
_BYTES = {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>%|[a-z]*)(?:@(?P<model>.+))?", re.IGNORECASE)

KVBytesPerToken = Callable[[str], int]
"""From a model's name to the bytes of one token's keys and values."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """One cache size: of blocks, of bytes for a model, of a share of the working set, of a multiple of what the server
    that wrote the trace had, or without bounds (no field).
    """

    text: str
    num_trace_blocks: int | None = None
    num_tokens: int | None = None
    share: Fraction | None = None
    times_served: Fraction | None = None

    def num_blocks(
        self, block_size: int, trace_block_size: int, working_set: int, served_tokens: int | None = None
    ) -> int | None:
        """In blocks of ``block_size`` tokens; ``None``: without bounds.

        ``served_tokens``: what the cache of the server that wrote the trace held.

        Raises:
            ConfigError: it is less than one block, or of a server of which nothing is known.
        """
        if self.times_served is not None:
            if served_tokens is None:
                raise ConfigError(f"capacity {self.text}: only a request log tells how much memory its server had")
            num_blocks = int(self.times_served * served_tokens) // block_size
        elif self.share is not None:
            num_blocks = int(self.share * working_set)
        elif self.num_tokens is not None:
            num_blocks = self.num_tokens // block_size
        elif self.num_trace_blocks is not None:
            num_blocks = self.num_trace_blocks * trace_block_size // block_size
        else:
            return None
        if num_blocks < 1:
            raise ConfigError(f"capacity {self.text} is less than one block of {block_size} tokens: give more")
        return num_blocks


def parse_capacities(text: str, kv_bytes_per_token: KVBytesPerToken) -> list[Capacity]:
    """Sizes separated by commas or bars.

    Raises:
        ConfigError: one of them cannot be understood.
    """
    return [_parse(word.strip(), kv_bytes_per_token) for word in re.split(r"[,|]", text) if word.strip()]


def _parse(text: str, kv_bytes_per_token: KVBytesPerToken) -> Capacity:
    if text.lower() == "inf":
        return Capacity(text)
    found = _SIZE.fullmatch(text)
    unit = found["unit"].lower() if found else ""
    if found and unit == "%" and found["model"] is None:
        return Capacity(text, share=Fraction(found["number"]) / 100)
    if found and unit == "x" and found["model"] is None:
        return Capacity(text, times_served=Fraction(found["number"]))
    if found and unit in _THOUSANDS and found["model"] is None:
        return Capacity(text, num_trace_blocks=int(Fraction(found["number"]) * _THOUSANDS[unit]))
    if found and unit in _BYTES:
        if found["model"] is None:
            raise ConfigError(f"capacity {text} is in bytes: say for which model, as in {text}@MODEL")
        num_bytes = Fraction(found["number"]) * _BYTES[unit]
        return Capacity(text, num_tokens=int(num_bytes / kv_bytes_per_token(found["model"])))
    raise ConfigError(f"capacity {text!r} is not understood: write 10k (blocks), 5%, 2x, 8GiB@MODEL, or inf")

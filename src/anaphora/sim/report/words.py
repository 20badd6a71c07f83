"""Numbers, times and the ledger's classes in words; every figure, table and page says them the same way."""

import math
from collections.abc import Mapping

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"))

CLASSES: Mapping[str, str] = {
    "bypassed": "No lookup was made: caching was off.",
    "tail": "In the last, incomplete block of the prompt, which cannot be shared at this block size. "
    "Smaller blocks lower it.",
    "reused_device": "Served from the cache: keys and values were in device memory.",
    "reused_host": "Served from the cache: keys and values were in host memory.",
    "reused_disk": "Served from the cache: keys and values were on disk.",
    "last_token": "Cached, but the prompt ends with this block. An engine must compute the last token to have its "
    "logits, and with it computes the whole block.",
    "in_flight": "Another request was computing this very block, and had not finished.",
    "evicted": "Was cached, and was evicted before it was asked for again: what more memory or a better policy can "
    "win.",
    "isolated": "Cached by another tenant; tenants never share.",
    "diverged": "After the place where the prompt parts from the earlier prompt that is most like it, up to where that "
    "one ends: what prompts with a more stable beginning can win.",
    "new": "Never seen before, or so long ago that it is not remembered: no cache helps.",
}
"""What a token in each class of the ledger tells about a cache."""


def count(number: int, noun: str) -> str:
    """So many of a thing: 1 request, 2,000 requests."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def thousands(value: float, _: object = None) -> str:
    """A count as short as it can be: 950, 18k, 1.8M. (The second argument is for figures' axes.)"""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def duration(seconds: float) -> str:
    """In the largest unit of which there is at least one: 90 s are 1.5 min."""
    if not seconds or not math.isfinite(seconds):
        return "0"
    size, unit = next(((size, unit) for size, unit in _UNITS if abs(seconds) >= size * 0.9995), _UNITS[-1])
    return f"{seconds / size:.3g} {unit}"

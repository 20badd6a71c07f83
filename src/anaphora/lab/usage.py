"""What a server's ``usage`` object says, in whichever dialect. What it does not say is ``None``, never 0.

The shapes are data: :mod:`anaphora.lab.dialects.usage_shapes`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from anaphora.lab.dialects.usage_shapes import SERVER_TTFT_MS, USAGE_SHAPES, Path, UsageShape


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one answer. ``num_prompt_tokens`` includes the cached and the written ones."""

    num_prompt_tokens: int | None = None
    num_completion_tokens: int | None = None
    num_cached_tokens: int | None = None
    num_written_tokens: int | None = None
    """Written into the cache, where the service counts that; some ask more for these."""


UNKNOWN_USAGE = Usage()


def read_usage(usage: Mapping[str, Any] | None) -> Usage:
    """The counts, each from the first shape that knows it."""
    if not isinstance(usage, Mapping):
        return UNKNOWN_USAGE
    found = [_read(shape, usage) for shape in USAGE_SHAPES if _applies(shape, usage)]
    return Usage(
        num_prompt_tokens=_first_known(one.num_prompt_tokens for one in found),
        num_completion_tokens=_first_known(one.num_completion_tokens for one in found),
        num_cached_tokens=_first_known(one.num_cached_tokens for one in found),
        num_written_tokens=_first_known(one.num_written_tokens for one in found),
    )


def server_ttft_ms(usage: Mapping[str, Any] | None) -> float | None:
    """The server's own time from the request's arrival to its first token, in milliseconds, if it tells that."""
    for paths in SERVER_TTFT_MS:
        parts = [_at(usage or {}, path) for path in paths]
        numbers = [part for part in parts if isinstance(part, int | float) and not isinstance(part, bool)]
        if len(numbers) == len(parts):
            return float(sum(numbers))
    return None


def _applies(shape: UsageShape, usage: Mapping[str, Any]) -> bool:
    return not shape.only_with or any(name in usage for name in shape.only_with)


def _read(shape: UsageShape, usage: Mapping[str, Any]) -> Usage:
    prompt, completion, cached, written = (
        _first_known(_count(_at(usage, path)) for path in paths)
        for paths in (shape.prompt, shape.completion, shape.cached, shape.written)
    )
    if shape.rest and prompt is not None:
        prompt += (cached or 0) + (written or 0)
    return Usage(prompt, completion, cached, written)


def _at(value: Any, path: Path) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _first_known(counts: Iterable[int | None]) -> int | None:
    return next((count for count in counts if count is not None), None)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

"""What a server's ``usage`` object says, in whichever dialect. What it does not say is ``None``, never 0."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one answer. ``num_prompt_tokens`` includes the cached ones."""

    num_prompt_tokens: int | None = None
    num_completion_tokens: int | None = None
    num_cached_tokens: int | None = None


UNKNOWN_USAGE = Usage()


def read_usage(usage: Mapping[str, Any] | None) -> Usage:
    """Counts from OpenAI's chat and responses shapes, DeepSeek's and Anthropic's.

    The last of these leaves cached tokens out of ``input_tokens``; the others include them.
    """
    if not isinstance(usage, Mapping):
        return UNKNOWN_USAGE
    prompt = _first_count(usage, "prompt_tokens", "input_tokens")
    completion = _first_count(usage, "completion_tokens", "output_tokens")
    if "cache_read_input_tokens" in usage:
        read = _count(usage["cache_read_input_tokens"])
        written = _count(usage.get("cache_creation_input_tokens"))
        total = None if prompt is None else prompt + (read or 0) + (written or 0)
        return Usage(total, completion, read)
    return Usage(prompt, completion, _cached(usage))


def _cached(usage: Mapping[str, Any]) -> int | None:
    for name in ("prompt_tokens_details", "input_tokens_details"):
        details = usage.get(name)
        if isinstance(details, Mapping) and (count := _count(details.get("cached_tokens"))) is not None:
            return count
    return _count(usage.get("prompt_cache_hit_tokens"))


def _first_count(usage: Mapping[str, Any], *names: str) -> int | None:
    return next((count for name in names if (count := _count(usage.get(name))) is not None), None)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

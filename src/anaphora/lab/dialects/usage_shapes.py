"""Where answers tell their token counts, shape by shape, and where they tell the server's own times."""

from dataclasses import dataclass

Path = tuple[str, ...]
"""Keys from the ``usage`` object inwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageShape:
    """One way to write token counts; each field lists the places where the count may stand, the first that has one
    wins.

    ``only_with``: the shape applies only where one of these keys is present. ``rest``: ``prompt`` leaves cached and
    written tokens out, so that they are added.
    """

    name: str
    prompt: tuple[Path, ...] = ()
    completion: tuple[Path, ...] = ()
    cached: tuple[Path, ...] = ()
    written: tuple[Path, ...] = ()
    only_with: tuple[str, ...] = ()
    rest: bool = False


USAGE_SHAPES = (
    UsageShape(
        name="OpenAI chat",
        only_with=("prompt_tokens",),
        prompt=(("prompt_tokens",),),
        completion=(("completion_tokens",),),
        cached=(
            ("prompt_tokens_details", "cached_tokens"),
            ("prompt_cache_hit_tokens",),  # DeepSeek
            ("cache_read_input_tokens",),  # gateways that add Anthropic's names to a whole count
        ),
        written=(
            ("prompt_tokens_details", "cache_write_tokens"),
            ("prompt_tokens_details", "created_cache_tokens"),  # vLLM from 0.32
            ("cache_creation_input_tokens",),
        ),
    ),
    UsageShape(
        name="Anthropic",
        only_with=("cache_read_input_tokens", "cache_creation_input_tokens"),
        prompt=(("input_tokens",),),
        completion=(("output_tokens",),),
        cached=(("cache_read_input_tokens",),),
        written=(("cache_creation_input_tokens",),),
        rest=True,
    ),
    UsageShape(
        name="OpenAI responses",
        prompt=(("input_tokens",),),
        completion=(("completion_tokens",), ("output_tokens",)),
        cached=(("input_tokens_details", "cached_tokens"),),
        written=(("input_tokens_details", "cache_write_tokens"),),
    ),
    UsageShape(
        name="Gemini native",
        prompt=(("promptTokenCount",),),
        completion=(("candidatesTokenCount",),),
        cached=(("cachedContentTokenCount",),),
    ),
    UsageShape(
        name="llama.cpp timings",
        prompt=(("timings", "prompt_n"),),
        completion=(("timings", "predicted_n"),),
        cached=(("timings", "cache_n"),),
        rest=True,
    ),
)
"""The first shape that knows a count gives it; a later one only fills what is still unknown."""

BESIDE_USAGE = ("timings", "metrics", "sglext")
"""What servers write beside ``usage`` about the same request. It is kept with it, under the server's own names."""

SERVER_TTFT_MS: tuple[tuple[Path, ...], ...] = (
    (("metrics", "queue_time_ms"), ("metrics", "time_to_first_token_ms")),  # vLLM; its own runs from being scheduled
    (("timings", "prompt_ms"),),  # llama.cpp
)
"""Whose sum is the server's own time to a first token, by dialect."""

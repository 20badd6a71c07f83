"""Records made for tests."""

from typing import Any

from anaphora.traces.records import RequestRecord

SENT_NS = 5_000_000_000

TABLES: dict[str, Any] = {
    "settings": {
        "seed": 0,
        "mechanism": "salt",
        "mechanism_proof": "",
        "exact_lengths": True,
        "experiments": {"switch": {"prefix_tokens": 100}},
        "command": "anaphora bench switch",
    },
    "target": {"kind": "vLLM", "model": "m", "version": None, "cache_settings": {}},
    "environment": {"processor": "p", "num_cpus": 2, "load_average": [0.1, 0.1, 0.1]},
}
"""The least that a run line's tables hold."""


def record(
    *,
    ttft_ms: float | None = 10.0,
    e2e_ms: float = 20.0,
    streamed: bool = True,
    error: str | None = None,
    **changes: Any,
) -> RequestRecord:
    """A measured request of the switch's on arm; ``changes`` replace any other field."""
    first = None if ttft_ms is None else SENT_NS + round(ttft_ms * 1e6)
    values: dict[str, Any] = {
        "experiment": "switch",
        "arm": "on",
        "phase": "measured",
        "group": 100,
        "index": 2,
        "label": "why?",
        "server": "main",
        "sent_ns": SENT_NS,
        "first_byte_ns": first,
        "first_token_ns": first if streamed else None,
        "first_answer_ns": first,
        "last_token_ns": first,
        "end_ns": SENT_NS + round(e2e_ms * 1e6),
        "streamed": streamed,
        "connection_reused": True,
        "max_tokens": 4,
        "num_prompt_tokens": 100,
        "predicted_cached_tokens": 96,
        "num_token_events": 4,
        "finish_reason": "length",
        "usage": {"prompt_tokens": 100, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 96}},
        "worst_loop_lag_ns": 200_000,
        "counters_before": None,
        "counters_after": None,
        "answer": "text",
        "error": error,
    }
    return RequestRecord(**{**values, **changes})

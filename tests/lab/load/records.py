"""Records of load made for tests."""

from typing import Any

from anaphora.lab.load.records import LoadHeader, LoadRecord, Stage, Window

MS = 1_000_000
S = 1_000_000_000


def load_record(
    *,
    due_ms: float = 0.0,
    late_ms: float = 0.0,
    ttft_ms: float = 10.0,
    gap_ms: float = 5.0,
    num_events: int = 4,
    usage_tokens: int | None = None,
    **changes: Any,
) -> LoadRecord:
    """A good request that was due so long after the clock's zero; ``changes`` replace any other field."""
    intended = round(due_ms * MS)
    sent = intended + round(late_ms * MS)
    offsets = tuple(round((ttft_ms + n * gap_ms) * MS) for n in range(num_events))
    values: dict[str, Any] = {
        "stage": 0,
        "process": 0,
        "client": 0,
        "number": 0,
        "intended_ns": intended,
        "sent_ns": sent,
        "first_byte_ns": sent + MS,
        "end_ns": sent + (offsets[-1] if offsets else MS),
        "token_offsets_ns": offsets,
        "streamed": True,
        "connection_reused": True,
        "max_tokens": num_events,
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": num_events if usage_tokens is None else usage_tokens,
            "prompt_tokens_details": {"cached_tokens": 80},
        },
        "finish_reason": "length",
        "error": None,
    }
    return LoadRecord(**{**values, **changes})


def stage(**changes: Any) -> Stage:
    values: dict[str, Any] = {
        "number": 0,
        "loop": "closed",
        "level": 1.0,
        "arm": "on",
        "round": 0,
        "num_processes": 1,
    }
    return Stage(**{**values, **changes})


def window(begin_s: float | None = 0.0, end_s: float | None = 1.0, **changes: Any) -> Window:
    values: dict[str, Any] = {
        "stage": 0,
        "begin_ns": None if begin_s is None else round(begin_s * S),
        "end_ns": None if end_s is None else round(end_s * S),
        "num_due": None,
        "load_until_ns": None,
        "counters_before": None,
        "counters_after": None,
        "stopped": None,
    }
    return Window(**{**values, **changes})


def header(*stages: Stage, slo: dict[str, float] | None = None) -> LoadHeader:
    return LoadHeader(
        run_id="r",
        started_at="2026-01-01T00:00:00+00:00",
        settings={
            "seed": 0,
            "slo": slo or {},
            "command": "anaphora bench load",
            "mechanism": "salt",
            "mechanism_proof": "",
            "exact_lengths": True,
            "trace": None,
            "shrink": 1,
            "num_prefixes": 1,
            "prefix_tokens": 80,
            "unique_tokens": 20,
            "output_tokens": 4,
        },
        stages=stages,
        target={"kind": "ours", "model": "m", "version": "1", "base_url": "x", "cache_settings": {}},
        environment={"processor": "p", "num_cpus": 2, "load_average": [0.1, 0.1, 0.1], "client_error": None},
    )

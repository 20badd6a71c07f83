"""Times and counts of one request of a load, each a function of its record. ``None``: not measured, never short."""

from itertools import pairwise

from anaphora.lab.load.records import LoadRecord
from anaphora.lab.usage import read_usage


def lateness_ms(record: LoadRecord) -> float:
    """From when the request was due to when it was handed to the socket."""
    return (record.sent_ns - record.intended_ns) / 1e6


def ttft_ms(record: LoadRecord) -> float | None:
    """Time to first token, from the sending. An answer that was not streamed has none."""
    if record.error is not None or not record.streamed or not record.token_offsets_ns:
        return None
    return record.token_offsets_ns[0] / 1e6


def e2e_ms(record: LoadRecord) -> float | None:
    """End to end, from the sending."""
    return None if record.error is not None else (record.end_ns - record.sent_ns) / 1e6


def num_output_tokens(record: LoadRecord) -> int:
    """As the server counts them; the events that carried tokens, where it does not say."""
    counted = read_usage(record.usage).num_completion_tokens
    return len(record.token_offsets_ns) if counted is None else counted


def tpot_ms(record: LoadRecord) -> float | None:
    """Time per output token after the first. ``None`` where there was no second one, or none could be timed."""
    num_tokens = num_output_tokens(record)
    if ttft_ms(record) is None or num_tokens < 2 or len(record.token_offsets_ns) < 2:
        return None
    return (record.token_offsets_ns[-1] - record.token_offsets_ns[0]) / 1e6 / (num_tokens - 1)


def gaps_ms(record: LoadRecord) -> list[float]:
    """Inter-token latencies: between events that carried tokens. An event may carry several."""
    if ttft_ms(record) is None:
        return []
    return [(later - earlier) / 1e6 for earlier, later in pairwise(record.token_offsets_ns)]


def limit_times(record: LoadRecord, *, from_due: bool) -> dict[str, float | None]:
    """The times that limits are set on (:mod:`anaphora.lab.load.slo`). ``from_due``: counted from when the request was
    due. An answer of one token has no further ones that could be slow."""
    extra = lateness_ms(record) if from_due else 0.0
    ttft, e2e = ttft_ms(record), e2e_ms(record)
    is_single = ttft is not None and num_output_tokens(record) == 1
    return {
        "ttft_ms": None if ttft is None else ttft + extra,
        "tpot_ms": 0.0 if is_single else tpot_ms(record),
        "e2e_ms": None if e2e is None else e2e + extra,
    }

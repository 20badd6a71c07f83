"""Times of one request, each a function of its record. ``None`` means that it was not measured, never that it was
short."""

from anaphora.lab.usage import read_usage
from anaphora.traces.records import RequestRecord


def ttft_ms(record: RequestRecord) -> float | None:
    """Time to first token: request handed to the socket → the bytes that carry the first generated token have arrived.

    An answer that was not streamed has none: the time of its only arrival is an end-to-end time.
    """
    if record.error is not None or not record.streamed or record.first_token_ns is None:
        return None
    return (record.first_token_ns - record.sent_ns) / 1e6


def e2e_ms(record: RequestRecord) -> float | None:
    """End to end: request handed to the socket → the last bytes of the answer have arrived."""
    return None if record.error is not None else (record.end_ns - record.sent_ns) / 1e6


def tpot_ms(record: RequestRecord) -> float | None:
    """Time per output token after the first, as the server counts them. ``None`` where there was no second one."""
    num_tokens = read_usage(record.usage).num_completion_tokens or record.num_token_events
    if ttft_ms(record) is None or record.last_token_ns is None or num_tokens < 2:
        return None
    assert record.first_token_ns is not None
    return (record.last_token_ns - record.first_token_ns) / 1e6 / (num_tokens - 1)

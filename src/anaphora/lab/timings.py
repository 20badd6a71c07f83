"""Times of one request, each a function of its record. ``None`` means that it was not measured, never that it was
short."""

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

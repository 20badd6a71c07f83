"""Three witnesses of a hit: the answer's ``usage``, the server's counters, and the prediction of the same cache
arithmetic.

Each gives cached tokens of prompt tokens, or ``None`` when it says nothing. Where they differ, the difference gets a
name.
"""

from collections import Counter
from collections.abc import Sequence

from anaphora.lab.counters import difference, total
from anaphora.lab.usage import read_usage
from anaphora.traces.records import CounterReading, RequestRecord

WITNESSES = ("usage", "metrics", "predicted")
Share = tuple[float, float]
"""Cached tokens, of so many."""


def prompt_tokens(record: RequestRecord) -> int | None:
    """Tokens of the prompt as the server counted them, else as they were tokenised before sending."""
    counted = read_usage(record.usage).num_prompt_tokens
    return record.num_prompt_tokens if counted is None else counted


def counted(record: RequestRecord) -> CounterReading | None:
    """What the server's counters grew by during this request."""
    return difference(record.counters_before, record.counters_after)


def shares(records: Sequence[RequestRecord]) -> dict[str, Share | None]:
    """Cached tokens and their total by witness, over the successful records that the witness speaks about.

    The counters must cover all of the records: a sum with a hole in it is no sum.
    """
    good = [record for record in records if record.error is None]
    usage = [
        (cached, prompt)
        for record in good
        if (cached := read_usage(record.usage).num_cached_tokens) is not None
        and (prompt := prompt_tokens(record)) is not None
    ]
    predicted = [
        (record.predicted_cached_tokens, record.num_prompt_tokens)
        for record in good
        if record.predicted_cached_tokens is not None and record.num_prompt_tokens is not None
    ]
    metrics = total(counted(record) for record in good)
    return {
        "usage": _sum(usage),
        "metrics": None if metrics is None else (metrics.cached, metrics.queried),
        "predicted": _sum(predicted),
    }


def cached_by_source(records: Sequence[RequestRecord]) -> dict[str, float]:
    """Cached tokens by where they came from, as the counters tell over all records; empty where they do not."""
    metrics = total(counted(record) for record in records if record.error is None)
    return {} if metrics is None else {name: count for name, count in metrics.by_source.items() if count}


def hit_rates(records: Sequence[RequestRecord]) -> dict[str, float | None]:
    """Hit rate in per cent by witness. ``None``: unknown, or nothing was looked up because caching is off."""
    return {
        name: None if share is None or share[1] == 0 else round(share[0] / share[1] * 100, 3)
        for name, share in shares(records).items()
    }


def gaps(records: Sequence[RequestRecord], *, block_size: int) -> dict[str, int]:
    """How many successful requests show which difference between prediction and ``usage``; no entry where they
    agree."""
    names = (_gap(record, block_size) for record in records if record.error is None)
    return dict(sorted(Counter(name for name in names if name is not None).items()))


def _gap(record: RequestRecord, block_size: int) -> str | None:
    usage, predicted = read_usage(record.usage), record.predicted_cached_tokens
    if predicted is None:
        return "no tokenizer, so no prediction"
    if usage.num_prompt_tokens is not None and usage.num_prompt_tokens != record.num_prompt_tokens:
        return "another token count than predicted: the template or tokenizer differs"
    if usage.num_cached_tokens is None:
        return "hidden by the server"
    gap = usage.num_cached_tokens - predicted
    if gap == 0:
        return None
    if abs(gap) <= block_size:
        return "within one block: rounding or the last token"
    if gap > 0:
        return "more than predicted: left from earlier traffic"
    return "less than predicted: evicted, reset, or another replica"


def _sum(parts: Sequence[Share]) -> Share | None:
    return (sum(cached for cached, _ in parts), sum(prompt for _, prompt in parts)) if parts else None

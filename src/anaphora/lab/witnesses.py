"""Three witnesses of a hit: the answer's ``usage``, the server's counters, and the prediction of the same cache
arithmetic.

Each gives cached tokens of prompt tokens, or ``None`` when it says nothing. Where they differ, the difference gets a
name.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anaphora.lab.counters import difference, total
from anaphora.lab.group_names import group_name
from anaphora.lab.usage import read_usage
from anaphora.traces.records import Arm, CounterReading, RequestRecord

OTHER_LENGTH = "another token count than predicted: the template or tokenizer differs"
AFTER_FAILURE = "less than predicted: the request before it failed"
WITHIN_ONE_BLOCK = "within one block: rounding or the last token"
HIDDEN = "hidden by the server"
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


def cached_tokens(record: RequestRecord) -> int | None:
    """As the answer tells or, where it is silent, as the counters do; ``None``: nobody tells."""
    return told_cached(read_usage(record.usage).num_cached_tokens, prompt_tokens(record), counted(record))


def told_cached(by_answer: int | None, num_prompt_tokens: int | None, counts: CounterReading | None) -> int | None:
    """The cached tokens of one request. Counters stand in for a silent answer only if they are in tokens and grew by
    this prompt and no more: else they count other people's requests too."""
    if by_answer is not None:
        return by_answer
    is_exact = counts is not None and counts.unit == "tokens" and counts.queried == num_prompt_tokens
    return round(counts.cached) if counts is not None and is_exact else None


def told_rate(rates: Mapping[str, float | None]) -> float | None:
    """Of the hit rates by witness the one that was observed: the answers', else the counters'."""
    return rates["metrics"] if rates["usage"] is None else rates["usage"]


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


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One request of which the witnesses say different things, in cached tokens, and the class of the difference."""

    experiment: str
    arm: str
    group: str
    index: int
    label: str
    usage: int | None
    metrics: float | None
    predicted: int | None
    gap: str


def disagreements(records: Sequence[RequestRecord], *, block_size: int) -> list[Disagreement]:
    """The successful requests on which witnesses that speak part, or of which the server tells nothing."""
    found, follows_failure = [], dict[tuple[str, str, int], bool]()
    for record in records:
        place = (record.experiment, record.arm, record.group)
        gap = gap_of(record, block_size) if record.error is None else None
        if gap is not None:
            is_less = (cached_tokens(record) or 0) < (record.predicted_cached_tokens or 0)
            found.append(_disagreement(record, AFTER_FAILURE if is_less and follows_failure.get(place) else gap))
        follows_failure[place] = record.error is not None
    return found


def gaps(records: Sequence[RequestRecord], *, block_size: int) -> dict[str, int]:
    """How many successful requests show which difference; no entry where the witnesses agree."""
    return dict(sorted(Counter(one.gap for one in disagreements(records, block_size=block_size)).items()))


def gap_of(record: RequestRecord, block_size: int) -> str | None:
    """The class of the difference between those of prediction, ``usage`` and counters that speak; ``None`` where they
    agree. That the server tells nothing at all is a class too."""
    cached, predicted = cached_tokens(record), record.predicted_cached_tokens
    if predicted is not None and prompt_tokens(record) != record.num_prompt_tokens:
        return OTHER_LENGTH
    if cached is None:
        return HIDDEN
    by_prediction = None if predicted is None else gap_to_prediction(cached - predicted, record.arm, block_size)
    return by_prediction or _gap_to_counters(record, cached)


def gap_to_prediction(gap: int, arm: Arm, block_size: int) -> str | None:
    """The class of so many cached tokens more than predicted; ``None`` for none."""
    if gap == 0:
        return None
    if arm == "off" and gap > 0:
        return "hit although it should miss: the cache was not out of reach"
    if abs(gap) <= block_size:
        return WITHIN_ONE_BLOCK
    if gap > 0:
        return "more than predicted: left by earlier traffic, or by an answer that the next prompt repeats"
    return "less than predicted: evicted, reset, or another replica"


def _gap_to_counters(record: RequestRecord, cached: int) -> str | None:
    """Counters in blocks say nothing to the token; those that looked nothing up say that caching is off there."""
    metrics = counted(record)
    if metrics is None or metrics.unit != "tokens" or metrics.queried == 0 or metrics.cached == cached:
        return None
    if metrics.queried > (prompt_tokens(record) or 0):
        return "counters hold more than this request: foreign traffic"
    return "counters and answer differ: counted at another moment, or by another rule"


def _disagreement(record: RequestRecord, gap: str) -> Disagreement:
    metrics = counted(record)
    return Disagreement(
        record.experiment,
        record.arm,
        group_name(record),
        record.index,
        record.label,
        read_usage(record.usage).num_cached_tokens,
        None if metrics is None else metrics.cached,
        record.predicted_cached_tokens,
        gap,
    )


def _sum(parts: Sequence[Share]) -> Share | None:
    return (sum(cached for cached, _ in parts), sum(prompt for _, prompt in parts)) if parts else None

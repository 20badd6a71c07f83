"""A run's counter readings, one after another: did they go back, change their names, or count what was not ours?"""

from collections.abc import Sequence
from dataclasses import dataclass

from anaphora.lab.counters import difference
from anaphora.lab.usage import read_usage
from anaphora.traces.records import CounterReading, RequestRecord


@dataclass(frozen=True, slots=True)
class CounterChain:
    """What the readings around the requests of a run tell of themselves. Each reading is the next request's first.

    ``num_foreign_tokens``: looked up beyond the prompts that were sent. ``None``: cannot be told, because the counters
    are in blocks or the answers tell no prompt tokens.
    """

    families: tuple[str, ...]
    num_readings: int
    num_resets: int
    num_foreign_tokens: float | None
    num_requests_with_foreign: int

    @classmethod
    def of(cls, records: Sequence[RequestRecord]) -> "CounterChain":
        """Of the requests that have a reading before and after."""
        spans = [(r, r.counters_before, r.counters_after) for r in records]
        known = [(r, before, after) for r, before, after in spans if before is not None and after is not None]
        foreign = [_foreign_tokens(r, before, after) for r, before, after in known]
        counted = [tokens for tokens in foreign if tokens is not None]
        return cls(
            families=tuple(dict.fromkeys(one.family for _, before, after in known for one in (before, after))),
            num_readings=len(known),
            num_resets=sum(went_back(before, after) for _, before, after in known),
            num_foreign_tokens=sum(counted) if counted else None,
            num_requests_with_foreign=sum(tokens > 0 for tokens in counted),
        )


def went_back(before: CounterReading, after: CounterReading) -> bool:
    """The same counters show less than before: the server restarted, or another replica answered."""
    is_same = (before.family, before.unit) == (after.family, after.unit)
    return is_same and (after.queried < before.queried or after.cached < before.cached)


def _foreign_tokens(record: RequestRecord, before: CounterReading, after: CounterReading) -> float | None:
    delta, num_prompt = difference(before, after), read_usage(record.usage).num_prompt_tokens
    if delta is None or delta.unit != "tokens" or num_prompt is None:
        return None
    return max(0.0, delta.queried - num_prompt)

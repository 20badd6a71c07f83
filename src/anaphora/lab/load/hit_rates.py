"""What share of the prompt tokens a load run's server took from its cache, by two witnesses."""

from collections.abc import Sequence

from anaphora.lab.counters import difference, total
from anaphora.lab.load.records import LoadRecord
from anaphora.lab.load.steady import Steady
from anaphora.lab.usage import read_usage


def hit_rate_of_usage(records: Sequence[LoadRecord]) -> float | None:
    """Per cent of the prompt tokens of the requests that tell both counts; ``None`` if none does."""
    pairs = [
        (usage.num_prompt_tokens, usage.num_cached_tokens)
        for record in records
        if (usage := read_usage(record.usage)).num_prompt_tokens and usage.num_cached_tokens is not None
    ]
    total = sum(prompt or 0 for prompt, _ in pairs)
    return 100 * sum(cached or 0 for _, cached in pairs) / total if total else None


def hit_rate_of_counters(stages: Sequence[Steady]) -> float | None:
    """Per cent, by what the server's counters grew over whole stages, warm-up and cool-down included; ``None`` where
    they are missing or were replaced meanwhile."""
    grown = total(difference(one.window.counters_before, one.window.counters_after) for one in stages)
    return 100 * grown.cached / grown.queried if grown is not None and grown.queried > 0 else None

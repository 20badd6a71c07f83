"""What share of the prompt tokens a load run's server took from its cache, by two witnesses."""

from collections.abc import Sequence

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
    queried = cached = 0.0
    for one in stages:
        before, after = one.window.counters_before, one.window.counters_after
        if before is None or after is None or (before.family, before.unit) != (after.family, after.unit):
            return None
        queried += after.queried - before.queried
        cached += after.cached - before.cached
    return 100 * cached / queried if queried > 0 and cached >= 0 else None

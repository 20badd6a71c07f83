"""What the engine has done so far: counters that only grow, and a snapshot of the present."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from anaphora.engine.outputs import FinishReason
from anaphora.kvcache.ledger import Reason
from anaphora.scheduler.scheduler import Scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """Between two steps; ``num_running`` to ``num_pinned_blocks`` are of now, all else since the start."""

    num_running: int = 0
    num_waiting: int = 0
    num_blocks: int = 0
    num_free_blocks: int = 0
    """Blocks that neither a running request nor a pin holds; cached ones among them."""
    kv_usage: float = 0.0
    """Share of blocks that running requests or pins hold, 0 to 1."""
    num_pins: int = 0
    num_pinned_blocks: int = 0
    """Different blocks that pins hold. A pin whose time is over counts until the engine has something to do."""
    num_prompt_tokens: int = 0
    """Of requests whose first step has succeeded; so are all counts of prompt tokens."""
    num_output_tokens: int = 0
    num_queried_tokens: int = 0
    """Prompt tokens for which the prefix cache was asked."""
    num_cached_tokens: int = 0
    """Prompt tokens that it served."""
    tokens_by_reason: Mapping[Reason, int] = field(default_factory=dict)
    """Prompt tokens by class of the ledger; the sum is ``num_prompt_tokens``. The operator's view."""
    tokens_by_tenant_reason: Mapping[Reason, int] = field(default_factory=dict)
    """The same in the tenants' own views, which tell nothing of what others hold."""
    num_evicted_blocks: int = 0
    num_preemptions: int = 0
    num_recomputed_tokens: int = 0
    """Tokens computed again after a preemption; never counted as cached."""
    num_finished: Mapping[FinishReason, int] = field(default_factory=dict)
    num_steps: int = 0
    """Steps that succeeded."""
    num_failed_steps: int = 0


@dataclass(slots=True)
class EngineCounters:
    """What the engine core counts itself; scheduler and cache core count the rest."""

    num_output_tokens: int = 0
    num_finished: Counter[FinishReason] = field(default_factory=Counter)


def take_snapshot(scheduler: Scheduler, counters: EngineCounters) -> EngineStats:
    """The picture of now."""
    cache = scheduler.cache
    return EngineStats(
        num_running=scheduler.num_running,
        num_waiting=scheduler.num_waiting,
        num_blocks=cache.config.num_blocks,
        num_free_blocks=cache.pool.num_available,
        kv_usage=cache.usage,
        num_pins=len(cache.pins),
        num_pinned_blocks=cache.pins.num_blocks,
        num_prompt_tokens=cache.stats.num_prompt_tokens,
        num_output_tokens=counters.num_output_tokens,
        num_queried_tokens=cache.stats.num_queried_tokens,
        num_cached_tokens=cache.stats.num_cached_tokens,
        tokens_by_reason=dict(cache.stats.num_tokens_by_reason),
        tokens_by_tenant_reason=dict(cache.stats.num_tokens_by_tenant_reason),
        num_evicted_blocks=cache.stats.num_evicted_blocks,
        num_preemptions=scheduler.stats.num_preemptions,
        num_recomputed_tokens=scheduler.stats.num_recomputed_tokens,
        num_finished=dict(counters.num_finished),
        num_steps=scheduler.stats.num_steps,
        num_failed_steps=scheduler.stats.num_failed_steps,
    )

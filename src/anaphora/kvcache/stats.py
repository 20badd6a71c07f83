"""Counters of the cache core. They only grow, and each thing is counted once."""

from collections import Counter
from dataclasses import dataclass, field

from anaphora.kvcache.ledger import Ledger, Reason


@dataclass(slots=True)
class CacheStats:
    """Totals since the start. A request is counted when its first step has succeeded, and never again."""

    num_requests: int = 0
    num_prompt_tokens: int = 0
    num_queried_tokens: int = 0
    """Prompt tokens for which a lookup was made."""
    num_cached_tokens: int = 0
    """Prompt tokens served from the prefix cache."""
    num_tokens_by_reason: Counter[Reason] = field(default_factory=Counter)
    """The requests' ledgers added up (the operator's view)."""
    num_tokens_by_tenant_reason: Counter[Reason] = field(default_factory=Counter)
    """The same in the tenants' own views: these may be shown to everybody."""
    num_stored_blocks: int = 0
    num_evicted_blocks: int = 0
    num_resets: int = 0

    def count(self, ledger: Ledger) -> None:
        """Add one request's ledger."""
        self.num_requests += 1
        self.num_prompt_tokens += ledger.num_prompt_tokens
        self.num_queried_tokens += ledger.num_queried_tokens
        self.num_cached_tokens += ledger.num_cached_tokens
        by_reason, by_tenant_reason = self.num_tokens_by_reason, self.num_tokens_by_tenant_reason
        for reason, count in ledger.counts.items():
            by_reason[reason] += count
        for reason, count in ledger.for_tenant().counts.items():
            by_tenant_reason[reason] += count

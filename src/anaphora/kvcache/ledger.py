"""The reuse ledger: every prompt token of a request in exactly one class, fixed when the request is first admitted."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class Reason(StrEnum):
    """Why a prompt token was, or was not, taken from the cache. A token gets the first class whose rule fits."""

    BYPASSED = "bypassed"
    """No lookup was made: caching off for the server or the request, or prompt log-probabilities asked."""
    TAIL = "tail"
    """In the last, incomplete block: cannot be shared at this block size."""
    REUSED_DEVICE = "reused_device"
    REUSED_HOST = "reused_host"
    REUSED_DISK = "reused_disk"
    """KV taken from that tier."""
    LAST_TOKEN = "last_token"
    """Cached, but the prompt ends with this block and one token must be computed, so the whole block is."""
    IN_FLIGHT = "in_flight"
    """Another running request is computing this block, or will, and it is not yet there."""
    EVICTED = "evicted"
    """Was cached and was evicted; known from a bounded memory of evicted prefixes."""
    ISOLATED = "isolated"
    """Only in the operator's view: another tenant holds it. The tenant's view says ``diverged`` or ``new``."""
    DIVERGED = "diverged"
    """From the first differing block to where the nearest earlier prompt of this tenant ends."""
    NEW = "new"
    """Everything else."""

    __repr__ = str.__repr__  # counts print as plain names and numbers
    __hash__ = str.__hash__  # an enumeration's own is a call of Python, and every count of every ledger asks for it


class Divergence(NamedTuple):
    """Where a prompt parted from the nearest earlier prompt of its tenant.

    ``position``: index of the first token that differs. ``earlier_request_id``: the prompt it parted from.
    ``expected`` and ``found``: the earlier prompt's and this prompt's tokens from ``position`` on, a short window each.
    """

    position: int
    earlier_request_id: str
    expected: tuple[int, ...]
    found: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ledger:
    """Tokens of one prompt by reason. The counts add up to ``num_prompt_tokens``: that is checked at construction.

    ``counts`` is the operator's view; :meth:`for_tenant` is what the tenant may see.
    """

    num_prompt_tokens: int
    counts: dict[Reason, int] = field(default_factory=dict)
    divergence: Divergence | None = None
    evicted_blocks_ago: int | None = None
    """How many of this tenant's evictions ago the first missing block was evicted (1: the latest), or ``None``."""
    num_isolated_diverged_tokens: int = 0
    """Tokens counted as ``isolated`` that the tenant's own view, which knows of no others, calls ``diverged``."""

    def __post_init__(self) -> None:
        assert sum(self.counts.values()) == self.num_prompt_tokens, (self.counts, self.num_prompt_tokens)

    @property
    def num_cached_tokens(self) -> int:
        """Tokens served from the prefix cache, whatever the tier."""
        get = self.counts.get
        return get(Reason.REUSED_DEVICE, 0) + get(Reason.REUSED_HOST, 0) + get(Reason.REUSED_DISK, 0)

    @property
    def num_queried_tokens(self) -> int:
        """Tokens for which a lookup was made: all of them, or none when the request bypassed the cache."""
        return self.num_prompt_tokens - self.counts.get(Reason.BYPASSED, 0)

    def for_tenant(self) -> "Ledger":
        """The same ledger as if no other tenant existed: ``isolated`` becomes ``diverged`` or ``new``."""
        if Reason.ISOLATED not in self.counts:
            return self
        counts = dict(self.counts)
        num_isolated = counts.pop(Reason.ISOLATED)
        num_diverged = self.num_isolated_diverged_tokens
        for reason, count in ((Reason.DIVERGED, num_diverged), (Reason.NEW, num_isolated - num_diverged)):
            if count:
                counts[reason] = counts.get(reason, 0) + count
        return Ledger(self.num_prompt_tokens, counts, self.divergence, self.evicted_blocks_ago)

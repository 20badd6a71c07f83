"""What a prefix cache is made of, as one frozen, checked value."""

from dataclasses import dataclass
from difflib import get_close_matches

from anaphora.errors import ConfigError
from anaphora.kvcache.eviction import DEFAULT_POLICY, EVICTION_POLICIES, policy_name

DEFAULT_MAX_PINNED_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfig:
    """Settings of the cache core, the same in the engine, the simulator and the router.

    What is remembered for the ledger's sake is bounded per namespace, so that no tenant's view depends on how much
    others send. At most ``max_remembered_namespaces`` are remembered at all; of more, those used longest ago are
    forgotten. An evicted block takes 4 bytes a token, and a share of an entry of about 0.7 KB for all blocks evicted in
    a row; a prompt takes 4 bytes a token, and what several begin with is there once.

    Raises:
        ConfigError: a value cannot be used; the message names the setting.
    """

    num_blocks: int
    block_size: int = 16
    """Tokens per block."""
    enable_prefix_caching: bool = True
    eviction_policy: str = DEFAULT_POLICY
    """Which cached blocks go first. ``default`` becomes the name of the policy that it stands for."""
    max_remembered_evictions: int = 16384
    """Evicted blocks remembered per namespace, to tell ``evicted`` from ``new``."""
    max_remembered_prompts: int = 128
    """Earlier prompts remembered per namespace, to tell ``diverged`` from ``new``."""
    max_remembered_namespaces: int = 64
    max_pinned_share: float = DEFAULT_MAX_PINNED_SHARE
    """Of the blocks, so many may be pinned, 0 to 1."""
    max_pins: int = 256
    """So many prefixes may be pinned, however few blocks they have."""

    def __post_init__(self) -> None:
        for name in ("num_blocks", "block_size", "max_remembered_namespaces"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("max_remembered_evictions", "max_remembered_prompts", "max_pins"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must not be negative, got {getattr(self, name)}")
        object.__setattr__(self, "eviction_policy", policy_name(self.eviction_policy))
        if not 0 <= self.max_pinned_share <= 1:
            raise ConfigError(f"max_pinned_share must be from 0 to 1, got {self.max_pinned_share}")
        if self.eviction_policy not in EVICTION_POLICIES:
            known = ", ".join(sorted(EVICTION_POLICIES))
            nearest = get_close_matches(self.eviction_policy, EVICTION_POLICIES, n=1)
            hint = f"did you mean {nearest[0]!r}? " if nearest else ""
            raise ConfigError(f"eviction_policy {self.eviction_policy!r} is not known; {hint}choose one of: {known}")

    @property
    def num_slots(self) -> int:
        """Tokens whose keys and values the cache can hold."""
        return self.num_blocks * self.block_size

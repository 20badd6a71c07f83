"""Which cached block goes when a new one is needed. A policy is one small class."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from anaphora.kvcache.eviction.default import DefaultEviction
from anaphora.kvcache.eviction.fifo import FIFOEviction
from anaphora.kvcache.eviction.lfu import LFUEviction
from anaphora.kvcache.eviction.lru import LRUEviction
from anaphora.kvcache.eviction.policy import EvictionPolicy
from anaphora.kvcache.eviction.s3fifo import S3FIFOEviction
from anaphora.kvcache.eviction.slru import SLRUEviction

EVICTION_POLICIES: Mapping[str, Callable[[int], EvictionPolicy]] = MappingProxyType(
    {
        "fifo": FIFOEviction,
        "lfu": LFUEviction,
        "lru": LRUEviction,
        "return-rate": DefaultEviction,
        "s3fifo": S3FIFOEviction,
        "slru": SLRUEviction,
    }
)
"""The policies by name; each is made for a number of blocks."""

DEFAULT_POLICY = "return-rate"
"""What evicts unless another is asked for. ``default`` asks for it too."""


def policy_name(name: str) -> str:
    """The own name of the policy that ``name`` asks for; ``name`` itself if it is not ``default``, known or not."""
    return DEFAULT_POLICY if name == "default" else name

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
        "default": DefaultEviction,
        "fifo": FIFOEviction,
        "lfu": LFUEviction,
        "lru": LRUEviction,
        "s3fifo": S3FIFOEviction,
        "slru": SLRUEviction,
    }
)
"""The policies by the name that ``CacheConfig.eviction_policy`` takes; each is made for a number of blocks."""

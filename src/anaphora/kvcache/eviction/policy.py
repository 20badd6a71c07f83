"""The protocol behind which eviction policies are siblings."""

from collections.abc import Iterable
from typing import Protocol

from anaphora.kvcache.eviction.visit import Visit
from anaphora.kvcache.prefix_index import PrefixNode


class EvictionPolicy(Protocol):
    """Picks the next block to evict among those that can go.

    A prefix is useless without its beginning. So the pool shows a policy the *leaves* alone: cached blocks that no
    request holds and below which nothing is cached. No policy can evict a block before its children, whatever it does.

    A node tells what a policy may want to know: ``stored_at`` and ``released_at`` (places in the order of all such
    events), ``num_uses`` (requests that found it cached), ``num_stores`` (more than 1: it was evicted, and came back),
    ``turn`` and ``visit``. There is no clock: ``now`` is the number of blocks stored so far.
    """

    def add(self, node: PrefixNode) -> None:
        """The node is a leaf from now on."""

    def remove(self, node: PrefixNode) -> None:
        """A request holds the leaf again."""

    def pop_victim(self) -> PrefixNode:
        """Remove and return the leaf to evict. There must be one."""

    def __len__(self) -> int:
        """Leaves."""

    def clone(self) -> "EvictionPolicy":
        """A policy that would pick the same victims, to ask what would go without letting it go."""

    def come_back(self, nodes: Iterable[PrefixNode], now: int) -> None:
        """A request asks for these nodes, which are cached or were evicted not long ago."""

    def leave(self, visit: Visit, now: int) -> None:
        """A request has left the visit's blocks."""


class NoMemory:
    """For policies that look at the leaves alone and learn nothing."""

    def come_back(self, nodes: Iterable[PrefixNode], now: int) -> None:
        """Nothing is learnt."""

    def leave(self, visit: Visit, now: int) -> None:
        """Nothing is learnt."""

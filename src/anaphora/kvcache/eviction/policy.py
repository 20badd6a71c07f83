"""The protocol behind which eviction policies are siblings."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from anaphora.kvcache.eviction.visit import Visit
from anaphora.kvcache.extent import Extent


class Victim(NamedTuple):
    """The extent whose last block goes next.

    ``as_a_whole``: its other blocks would follow, the last one first, before any other leaf, if they became leaves.
    """

    extent: Extent
    as_a_whole: bool


class EvictionPolicy(Protocol):
    """Picks the next block to evict among those that can go.

    A prefix is useless without its beginning. So the pool shows a policy the *leaves* alone: cached blocks that no
    request holds and below which nothing is cached. No policy can evict a block before its children, whatever it does.
    A leaf is the last block of an extent; when it goes, the block before it is the extent's new leaf.

    An extent tells what a policy may want to know of a block at a position in it: ``stored_at[position]`` and
    ``released_at - position`` (places in the order of all such events), ``num_uses`` (requests that found it cached),
    ``num_stores`` (more than 1: it was evicted, and came back), ``turn`` and ``visit``. There is no clock: ``now`` is
    the number of blocks stored so far.
    """

    def add(self, extent: Extent, position: int) -> None:
        """The extent's block at ``position``, the last one that is left, is a leaf from now on."""

    def remove(self, extent: Extent) -> None:
        """A request holds the leaf again."""

    def pop_victim(self) -> Victim:
        """Remove and return the leaf to evict. There must be one."""

    def __len__(self) -> int:
        """Leaves."""

    def clone(self) -> "EvictionPolicy":
        """A policy that would pick the same victims, to ask what would go without letting it go."""

    def come_back(self, extents: Iterable[Extent], now: int) -> None:
        """A request asks for these extents, which are cached or were evicted not long ago."""

    def leave(self, visit: Visit, now: int) -> None:
        """A request has left the visit's blocks."""


class NoMemory:
    """For policies that look at the leaves alone and learn nothing."""

    def come_back(self, extents: Iterable[Extent], now: int) -> None:
        """Nothing is learnt."""

    def leave(self, visit: Visit, now: int) -> None:
        """Nothing is learnt."""

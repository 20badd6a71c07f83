"""Pinned prefixes: they stay cached although no request holds them, for a time or until they are let go."""

from dataclasses import dataclass

from anaphora.errors import PinError
from anaphora.kvcache.block_pool import BlockPool
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.eviction.visit import visits
from anaphora.kvcache.extent import Extent
from anaphora.kvcache.prefix_cache import PrefixCache
from anaphora.kvcache.stats import CacheStats
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.types import Namespace


@dataclass(frozen=True, slots=True)
class Pin:
    """One pinned prefix: ``num_blocks`` blocks of ``num_tokens`` tokens. Times are the caller's clock's, in seconds."""

    name: str
    namespace: Namespace
    num_blocks: int
    num_tokens: int
    pinned_at_s: float
    expires_at_s: float | None
    """``None``: it stays until it is let go."""


class Pins:
    """A pin holds the extents of a prefix as a request does.

    All together hold at most ``max_blocks`` different blocks, and there are at most ``max_pins``: the work of a change
    grows with their number.

    There is no clock here: time is what the caller says it is, and nothing expires until it is told the time.
    """

    def __init__(self, config: CacheConfig, prefixes: PrefixCache, pool: BlockPool, stats: CacheStats) -> None:
        self.max_blocks = int(config.num_blocks * config.max_pinned_share)
        self.max_pins = config.max_pins
        self.num_blocks = 0
        """Different blocks that are pinned."""
        self._prefixes = prefixes
        self._pool = pool
        self._stats = stats
        self._pins: dict[str, tuple[Pin, Extent]] = {}  # with the extent where each ends

    def __len__(self) -> int:
        return len(self._pins)

    def all(self) -> tuple[Pin, ...]:
        """In the order in which they were made."""
        return tuple(pin for pin, _ in self._pins.values())

    def extents(self) -> list[Extent]:
        """What the pins hold; an extent that several hold is there as often."""
        return [extent for _, end in self._pins.values() for extent in _path(end)]

    def add(
        self, name: str, namespace: Namespace, tokens: TokenBlocks, *, now_s: float, time_to_live_s: float | None = None
    ) -> Pin:
        """Pin the full blocks of ``tokens`` that are cached, from the first one on.

        A pin of the same name is let go first. Pins whose time is over are, too.

        Raises:
            PinError: nothing of it is cached, or more would be pinned than may be. Nothing changes then.
        """
        self.expire(now_s)
        if name not in self._pins and len(self._pins) >= self.max_pins:
            raise PinError(f"there are {len(self._pins)} pins, and at most {self.max_pins} may be: let another one go")
        path, num_blocks = self._cached_path(namespace, tokens)
        if not path:
            raise PinError(
                "nothing of this prefix is cached as a full block: send a request with it first, then pin it"
            )
        others = {extent for other, end in self._pins.items() if other != name for extent in _path(end[1])}
        num_in_last = num_blocks - sum([extent.num_blocks for extent in path[:-1]])
        num_pinned = sum([extent.num_blocks for extent in {*others, *path}])
        if path[-1] not in others:
            num_pinned -= path[-1].num_blocks - num_in_last
        if num_pinned > self.max_blocks:
            raise PinError(
                f"{num_pinned} blocks would be pinned, and at most {self.max_blocks} may be: let other pins go, pin "
                "less, or raise max_pinned_share"
            )
        path[-1] = self._prefixes.first_blocks(path[-1], num_in_last)
        for extent in path:
            self._pool.acquire(extent)
        self.remove(name)
        expires_at_s = None if time_to_live_s is None else now_s + time_to_live_s
        pin = Pin(name, namespace, num_blocks, num_blocks * tokens.block_size, now_s, expires_at_s)
        self._pins[name] = pin, path[-1]
        self.num_blocks = num_pinned
        return pin

    def remove(self, name: str) -> bool:
        """Let a pin go; ``False`` if there is none of that name."""
        if name not in self._pins:
            return False
        _, end = self._pins.pop(name)
        path = _path(end)
        visit, _ = visits(path[-1].turn + 1, sum([extent.num_blocks for extent in path]), 0, 0)
        for extent in reversed(path):  # how the last request left an extent tells more than the pin's end
            self._pool.release(extent, visit if extent.visit is None else None)
        self._pool.policy.leave(visit, self._stats.num_stored_blocks)
        self.num_blocks = sum([extent.num_blocks for extent in set(self.extents())])
        return True

    def expire(self, now_s: float) -> list[str]:
        """Let go of the pins whose time is over. Their names."""
        names = [name for name, (pin, _) in self._pins.items() if pin.expires_at_s is not None]
        over = [name for name in names if (self._pins[name][0].expires_at_s or 0) <= now_s]
        for name in over:
            self.remove(name)
        return over

    def give_way(self) -> bool:
        """Let go of the pin that ends first, of those without end the oldest; ``False`` if there is none.

        For a request that could not run otherwise: a pin keeps blocks from eviction, and nobody from being served.
        """
        if not self._pins:
            return False
        ends = [(pin.expires_at_s is None, pin.expires_at_s or 0.0) for pin, _ in self._pins.values()]
        self.remove(list(self._pins)[ends.index(min(ends))])
        return True

    def _cached_path(self, namespace: Namespace, tokens: TokenBlocks) -> tuple[list[Extent], int]:
        """The extents that begin with the cached part of ``tokens``, and its length. The last extent may go on."""
        path: list[Extent] = []
        num_blocks = 0
        for extent, num_common in self._prefixes.index.walk(namespace, tokens, tokens.num_full):
            if not extent.is_usable(None):
                break
            path.append(extent)
            num_blocks += num_common
        return path, num_blocks


def _path(end: Extent) -> list[Extent]:
    """The extents from the first one up to where one ends."""
    path: list[Extent] = []
    extent: Extent | None = end
    while extent is not None and extent.parent is not None:
        path.append(extent)
        extent = extent.parent
    return path[::-1]

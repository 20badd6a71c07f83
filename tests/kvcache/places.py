"""The cache core seen block by block, whatever extents its blocks lie in."""

from typing import NamedTuple

from anaphora.kvcache.extent import Extent
from anaphora.kvcache.manager import KVCacheManager
from anaphora.kvcache.token_blocks import unpack


class Place(NamedTuple):
    """One block of an extent."""

    extent: Extent
    position: int

    @property
    def tokens(self) -> tuple[int, ...]:
        """The block's own tokens."""
        width = self.extent.width
        return unpack(bytes(self.extent.tokens[self.position * width : (self.position + 1) * width]))

    @property
    def prefix(self) -> tuple[int, ...]:
        """All tokens up to the block's end."""
        tokens = self.extent.tokens[: (self.position + 1) * self.extent.width]
        above = self.extent.parent
        while above is not None:
            tokens = above.tokens + tokens
            above = above.parent
        return unpack(bytes(tokens))

    @property
    def key(self) -> tuple[str, tuple[int, ...]]:
        return self.extent.namespace, self.prefix


def places_of(extent: Extent) -> list[Place]:
    return [Place(extent, position) for position in range(extent.num_blocks)]


def places(cache: KVCacheManager) -> dict[int, Place]:
    """Where each block that is in the index has its place."""
    return {
        extent.block_ids[place.position]: place
        for extent in cache.prefixes.index
        if extent.is_attached
        for place in places_of(extent)
    }


def find(cache: KVCacheManager, *tokens: int) -> Place:
    """The only block of the index with these tokens."""
    (place,) = [place for extent in cache.prefixes.index for place in places_of(extent) if place.tokens == tokens]
    return place


def reference_counts(cache: KVCacheManager) -> list[int]:
    """For each block, how many block tables mention it."""
    counts = [0] * cache.config.num_blocks
    for table in cache.tables.values():
        for block_id in table.ids:
            counts[block_id] += 1
    assert all(counts[block_id] == place.extent.ref_count for block_id, place in places(cache).items())
    return counts

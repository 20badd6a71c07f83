"""How requests take hold of cached blocks and leave them, and what the eviction policy is told of it."""

from anaphora.kvcache.block_pool import BlockPool
from anaphora.kvcache.block_table import BlockTable
from anaphora.kvcache.eviction.visit import visits
from anaphora.kvcache.extent import Extent
from anaphora.kvcache.match import Match
from anaphora.kvcache.prefix_cache import PrefixCache
from anaphora.kvcache.stats import CacheStats


class Sharing:
    """Counts who holds what, and tells the policy who comes back for what and who leaves it.

    Its clock is the number of blocks stored so far.
    """

    def __init__(self, prefixes: PrefixCache, pool: BlockPool, stats: CacheStats) -> None:
        self._prefixes = prefixes
        self._pool = pool
        self._stats = stats

    def arrive(self, table: BlockTable, match: Match) -> None:
        """A request holds what it has matched."""
        for extent in self._take(match):
            table.extend(extent.block_ids)
            table.add_indexed(extent)
        if match.lookup:
            self._come_back(table, match)

    def leave(self, table: BlockTable, num_answer_tokens: int) -> None:
        """A request holds its cached blocks no more: the last ones are given up first."""
        num_found = table.num_found
        found, added = visits(table.turn, num_found, max(table.num_indexed - num_found, 0), num_answer_tokens)
        extent, end = table.extent, table.num_indexed
        while extent is not None and end:
            start = end - extent.num_blocks
            if start < num_found < end and extent.ref_count == 1:  # two visits: two histories
                self._prefixes.first_blocks(extent, num_found - start)
                start = num_found
            self._pool.release(extent, found if start < num_found else added)
            extent, end = extent.parent, start
        for visit in (found, added):
            self._pool.policy.leave(visit, self._stats.num_stored_blocks)

    def touch(self, match: Match, num_answer_tokens: int) -> None:
        """A request comes and leaves at once."""
        extents = self._take(match)
        turn = extents[-1].turn + 1 if extents else 1
        self._pool.policy.come_back(extents, self._stats.num_stored_blocks)
        found, added = visits(turn, match.num_blocks, 0, num_answer_tokens)
        for extent in reversed(extents):
            self._pool.release(extent, found)
        for visit in (found, added):
            self._pool.policy.leave(visit, self._stats.num_stored_blocks)

    def _take(self, match: Match) -> list[Extent]:
        """Hold the matched extents; the last one ends with the match."""
        if not match.extents:
            return []
        *extents, last = match.extents
        extents.append(self._prefixes.first_blocks(last, match.num_blocks - match.num_whole_blocks))
        for extent in extents:
            self._pool.acquire(extent)
            extent.num_uses += 1
        return extents

    def _come_back(self, table: BlockTable, match: Match) -> None:
        """Tell the policy what a request asks for that is there, or was there until not long ago."""
        found = table.extents()
        num_found = table.num_indexed
        walk = self._prefixes.index.walk(
            match.namespace, match.tokens, match.tokens.num_full, after=table.extent, position=num_found
        )
        for extent, num_common in walk:
            if extent.evicted_at is None:
                break
            found.append(self._prefixes.first_blocks(extent, num_common))
            num_found += num_common
        table.num_found = num_found
        table.turn = found[-1].turn + 1 if found else 1
        self._pool.policy.come_back(found, self._stats.num_stored_blocks)

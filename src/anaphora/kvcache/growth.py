"""How a request's block table grows: blocks taken, made pending, and cached once they are computed."""

from anaphora.kvcache.block_pool import BlockPool
from anaphora.kvcache.block_table import BlockTable
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.prefix_cache import PrefixCache


class Growth:
    """Changes block tables, the pool and the index together."""

    def __init__(self, config: CacheConfig, prefixes: PrefixCache, pool: BlockPool) -> None:
        self._config = config
        self._prefixes = prefixes
        self._pool = pool

    def num_blocks(self, num_tokens: int) -> int:
        """Blocks that so many tokens take."""
        return -(-num_tokens // self._config.block_size)

    def grow(self, table: BlockTable, num_tokens: int, step: int) -> None:
        """Take blocks for the first ``num_tokens`` tokens. Those that they fill are pending in ``step``."""
        num_new = self.num_blocks(num_tokens) - table.num_blocks
        if num_new > 0:
            table.extend(self._pool.take(num_new))
        num_full = num_tokens // self._config.block_size
        if num_full > table.num_indexed and self._config.enable_prefix_caching:
            self._publish(table, num_full, step)

    def commit(self, table: BlockTable, num_tokens: int) -> None:
        """Cache all blocks that the first ``num_tokens`` tokens fill, up to one that another is still computing."""
        num_full = num_tokens // self._config.block_size
        assert not table.pending or table.num_indexed + table.num_pending <= num_full, table.num_pending
        if num_full == table.num_indexed:  # as in most steps of a request that decodes
            return
        for extent in table.pending_extents():
            num_blocks = extent.num_blocks
            self._prefixes.store(extent)
            table.num_indexed += num_blocks
            table.extent = extent
        table.no_pending()
        if self._config.enable_prefix_caching:
            while table.num_indexed < num_full and self._settle(table, num_full):
                pass

    def _publish(self, table: BlockTable, num_full: int, step: int) -> None:
        """Enter the blocks that this step fills as pending, up to the first that somebody else has already."""
        assert not table.pending, table.pending
        parent, position = table.extent, table.num_indexed
        while position < num_full:
            extent = self._prefixes.publish(table, parent, position, num_full, step)
            if extent is None:
                break
            table.add_pending(extent)
            position += extent.num_blocks
            parent = extent

    def _settle(self, table: BlockTable, num_full: int) -> bool:
        """Cache the next blocks of the table that are not yet; ``False`` if another request is still computing them.

        Where another one's blocks are cached already, they take the place of the table's own.
        """
        start = table.num_indexed
        extent = self._prefixes.publish(table, table.extent, start, num_full, None)
        if extent is not None:
            num_blocks = extent.num_blocks
            self._prefixes.store(extent)
            table.num_indexed += num_blocks
            table.extent = extent
            return True
        extent = self._prefixes.index.child(table.namespace, table.extent, table.tokens, start)
        assert extent is not None
        if extent.owner is not None:
            return False
        extent = self._prefixes.first_blocks(extent, extent.num_spelt(table.tokens, start, num_full))
        self._pool.acquire(extent)
        self._pool.put_back(table.replace(start, extent.block_ids))
        table.add_indexed(extent)
        return True

"""The cache core: which blocks a request gets, which it shares, and what becomes of them."""

from collections.abc import Mapping
from types import MappingProxyType

from anaphora.kvcache.block_key import ROOT_KEY
from anaphora.kvcache.block_pool import BlockPool
from anaphora.kvcache.block_table import BlockTable
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.events import CacheListener
from anaphora.kvcache.eviction import EVICTION_POLICIES
from anaphora.kvcache.eviction.policy import EvictionPolicy
from anaphora.kvcache.eviction.visit import visits
from anaphora.kvcache.explain import explain
from anaphora.kvcache.integrity import check_integrity
from anaphora.kvcache.ledger import Ledger
from anaphora.kvcache.match import Match
from anaphora.kvcache.prefix_cache import PrefixCache
from anaphora.kvcache.prefix_index import PrefixNode
from anaphora.kvcache.stats import CacheStats
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.types import BlockId, BlockKey, Namespace, RequestId


class KVCacheManager:
    """Hands out blocks and keeps the prefix index. Deals in tokens and block ids; never sees a request or a tensor.

    ``listener`` is told of every block stored and removed, by keys that continue ``root_key``.

    A request's way: ``match`` (a question), ``admit``, then ``allocate`` and ``commit`` step by step, and ``free``.
    """

    def __init__(
        self, config: CacheConfig, *, listener: CacheListener | None = None, root_key: BlockKey = ROOT_KEY
    ) -> None:
        self.config = config
        self.stats = CacheStats()
        self.prefixes = PrefixCache(config, self.stats, listener, root_key)
        self.pool = BlockPool(config.num_blocks, self._new_policy(), self.prefixes.evict)
        self._tables: dict[RequestId, BlockTable] = {}

    # -- questions ---------------------------------------------------------------------------------------------------

    def match(
        self, namespace: Namespace, tokens: TokenBlocks, *, lookup: bool = True, step: int | None = None
    ) -> Match:
        """The reusable prefix: cached blocks from the first token on, short of the last token, which must be computed.

        Blocks that are pending in ``step`` count as cached. ``lookup=False``: the index is not asked.
        """
        lookup = lookup and self.config.enable_prefix_caching
        limit = (tokens.num_tokens - 1) // self.config.block_size
        nodes = self.prefixes.index.match(namespace, tokens.full[:limit], step) if lookup else []
        return Match(namespace, tokens, tuple(nodes), lookup, step)

    def explain(self, match: Match) -> Ledger:
        """Every token that ``match`` was asked for, by reason. To be asked before ``admit`` evicts anything."""
        prefixes = self.prefixes
        return explain(match, prefixes.index, prefixes.census, prefixes.memory.get(match.namespace))

    def fits(self, match: Match, num_tokens: int) -> bool:
        """Whether ``admit`` would succeed."""
        num_revived = sum(node.block is not None and node.block.ref_count == 0 for node in match.nodes)
        return self._num_blocks(num_tokens) - len(match.nodes) <= self.pool.num_available - num_revived

    def block_ids(self, request_id: RequestId) -> tuple[BlockId, ...]:
        """The block table of a request."""
        return self._tables[request_id].ids

    @property
    def tables(self) -> Mapping[RequestId, BlockTable]:
        """The block tables of all requests that hold blocks, in the order of their admission."""
        return MappingProxyType(self._tables)

    @property
    def usage(self) -> float:
        """Share of the blocks that requests hold, 0 to 1."""
        return 1 - self.pool.num_available / self.config.num_blocks

    # -- changes -----------------------------------------------------------------------------------------------------

    def admit(self, request_id: RequestId, match: Match, num_tokens: int, *, step: int) -> BlockTable | None:
        """Give a request its matched blocks and room for its first ``num_tokens`` tokens; ``None`` if there is no room.

        Blocks that these tokens fill are pending from now on: requests admitted later in ``step`` match them.
        """
        assert request_id not in self._tables, request_id
        assert match.num_cached_tokens < num_tokens <= match.tokens.num_tokens, (match, num_tokens)
        if not self.fits(match, num_tokens):
            return None
        table = BlockTable(request_id, match.namespace, match.tokens)
        for node in match.nodes:
            assert node.block is not None
            self.pool.acquire(node.block)
            node.num_uses += 1
            if node.owner is not None:
                table.borrowed_from.add(node.owner)
        table.extend([node.block for node in match.nodes if node.block is not None])
        table.num_indexed = len(match.nodes)
        table.node = match.nodes[-1] if match.nodes else None
        self._tables[request_id] = table
        self._come_back(table, match)
        self._grow(table, num_tokens, step)
        return table

    def allocate(self, request_id: RequestId, num_tokens: int, *, step: int) -> BlockTable | None:
        """Make room for the request's first ``num_tokens`` tokens; ``None``, and no change, if blocks are too few."""
        table = self._tables[request_id]
        if self._num_blocks(num_tokens) - len(table.blocks) > self.pool.num_available:
            return None
        self._grow(table, num_tokens, step)
        return table

    def commit(self, request_id: RequestId, num_computed_tokens: int) -> None:
        """The request's first ``num_computed_tokens`` tokens are computed: their full blocks are cached from now on.

        A block that another request has cached meanwhile is given up for that one: equal blocks are stored once.
        """
        table = self._tables[request_id]
        assert table.node is None or table.node.owner is None, "what the request has matched is not yet computed"
        num_full = num_computed_tokens // self.config.block_size
        if self.config.enable_prefix_caching:
            while table.num_indexed < num_full and self._settle(table):
                table.num_indexed += 1
        assert all(node.owner is None for node in table.pending), table.pending
        table.pending.clear()
        table.borrowed_from.clear()

    def withdraw(self, request_id: RequestId) -> None:
        """The step that was to compute the request's pending blocks came to nothing: they leave the index."""
        table = self._tables[request_id]
        for node in reversed(table.pending):
            self.prefixes.withdraw(node)
        table.pending.clear()

    def dependents(self, request_id: RequestId) -> tuple[RequestId, ...]:
        """Requests that have matched pending blocks of this one, in the order of their admission."""
        if not self._tables[request_id].pending:
            return ()
        return tuple(table.request_id for table in self._tables.values() if request_id in table.borrowed_from)

    def free(self, request_id: RequestId, *, num_answer_tokens: int | None = None) -> None:
        """Take a request's blocks back, tail first, so that the beginning of a prompt outlives its end.

        ``num_answer_tokens``: how many tokens were generated, where the request's own tokens do not show it.
        """
        assert not self.dependents(request_id), self.dependents(request_id)
        self.withdraw(request_id)
        table = self._tables.pop(request_id)
        if num_answer_tokens is None:
            num_answer_tokens = table.tokens.num_tokens - table.num_prompt_tokens
        num_found = table.num_found
        found, added = visits(table.turn, num_found, max(table.num_indexed - num_found, 0), num_answer_tokens)
        for position in reversed(range(len(table.blocks))):
            self.pool.release(table.blocks[position], found if position < num_found else added)
        for visit in (found, added):
            self.pool.policy.leave(visit, self.stats.num_stored_blocks)

    def reset(self) -> bool:
        """Forget all that is cached and remembered. ``False``, and no change, while any request holds blocks."""
        if self._tables:
            return False
        self.pool.clear(self._new_policy())
        self.prefixes.clear()
        return True

    def remember_prompt(self, namespace: Namespace, prompt: bytes, request_id: RequestId) -> None:
        """Keep an admitted prompt as an earlier prompt of its namespace."""
        if self.config.enable_prefix_caching:
            self.prefixes.memory.touch(namespace).prompts.remember(prompt, request_id)

    def forget_prompt(self, namespace: Namespace, prompt: bytes, request_id: RequestId) -> None:
        """The admission came to nothing."""
        memory = self.prefixes.memory.get(namespace)
        if memory is not None:
            memory.prompts.forget(prompt, request_id)

    def check_integrity(self) -> None:
        """Account for every block and every node; an ``AssertionError`` names what is wrong."""
        check_integrity(self)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _new_policy(self) -> EvictionPolicy:
        return EVICTION_POLICIES[self.config.eviction_policy](self.config.num_blocks)

    def _come_back(self, table: BlockTable, match: Match) -> None:
        """Tell the policy what a request asks for that is there, or was there until not long ago."""
        if not match.lookup:
            return
        nodes = list(match.nodes)
        node = table.node
        for tokens in match.tokens.full[len(nodes) :]:
            node = self.prefixes.index.child(match.namespace, node, tokens)
            if node is None or node.evicted_at is None:
                break
            nodes.append(node)
        table.num_found = len(nodes)
        table.turn = nodes[-1].turn + 1 if nodes else 1
        self.pool.policy.come_back(nodes, self.stats.num_stored_blocks)

    def _num_blocks(self, num_tokens: int) -> int:
        return -(-num_tokens // self.config.block_size)

    def _grow(self, table: BlockTable, num_tokens: int, step: int) -> None:
        num_new = self._num_blocks(num_tokens) - len(table.blocks)
        if num_new > 0:
            table.extend(self.pool.take(num_new))
        if self.config.enable_prefix_caching:
            self._publish(table, num_tokens // self.config.block_size, step)

    def _publish(self, table: BlockTable, num_full: int, step: int) -> None:
        """Enter the blocks that this step fills as pending, up to the first that somebody else has already."""
        assert not table.pending, table.pending
        node = table.node
        for position in range(table.num_indexed, num_full):
            node = self._publish_one(table, node, position, step)
            if node is None:
                break
            table.pending.append(node)

    def _publish_one(
        self, table: BlockTable, parent: PrefixNode | None, position: int, step: int | None
    ) -> PrefixNode | None:
        tokens, block = table.tokens.full[position], table.blocks[position]
        return self.prefixes.publish(table.namespace, parent, tokens, block, owner=table.request_id, step=step)

    def _settle(self, table: BlockTable) -> bool:
        """Cache the first block of the table that is not yet; ``False`` if another request is still computing it."""
        position = table.num_indexed
        block = table.blocks[position]
        node = self.prefixes.index.child(table.namespace, table.node, table.tokens.full[position])
        if node is None or node.block is None:
            node = self._publish_one(table, table.node, position, None)
        assert node is not None
        assert node.block is not None
        if node.owner == table.request_id:
            self.prefixes.store(node)
        elif node.owner is not None:
            return False
        else:
            assert node.block is not block, "a block of the table is cached, but not counted as indexed"
            self.pool.acquire(node.block)
            self.pool.release(table.replace(position, node.block))
        table.node = node
        return True

"""The cache core: which blocks a request gets, which it shares, and what becomes of them."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from anaphora.kvcache.block_key import ROOT_KEY
from anaphora.kvcache.block_pool import BlockPool
from anaphora.kvcache.block_table import BlockTable
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.events import CacheListener
from anaphora.kvcache.eviction import EVICTION_POLICIES
from anaphora.kvcache.eviction.policy import EvictionPolicy
from anaphora.kvcache.explain import explain, num_running_blocks
from anaphora.kvcache.growth import Growth
from anaphora.kvcache.integrity import check_integrity
from anaphora.kvcache.ledger import Ledger
from anaphora.kvcache.match import Match
from anaphora.kvcache.pins import Pins
from anaphora.kvcache.prefix_cache import PrefixCache
from anaphora.kvcache.sharing import Sharing
from anaphora.kvcache.stats import CacheStats
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.kvcache.tree_dump import TreeNode, dump_tree
from anaphora.types import BlockId, BlockKey, Namespace, RequestId

if TYPE_CHECKING:
    from anaphora.kvcache.extent import Extent


class KVCacheManager:
    """Hands out blocks and keeps the prefix index. Deals in tokens and block ids; never sees a request or a tensor.

    ``listener`` is told of every block stored and removed, by keys that continue ``root_key``. ``new_policy`` takes the
    place of the policy that ``config`` names.

    A request's way: ``match`` (a question), ``admit``, then ``allocate`` and ``commit`` step by step, and ``free``.
    """

    def __init__(
        self,
        config: CacheConfig,
        *,
        listener: CacheListener | None = None,
        root_key: BlockKey = ROOT_KEY,
        new_policy: Callable[[int], EvictionPolicy] | None = None,
    ) -> None:
        self.config = config
        self._make_policy = new_policy or EVICTION_POLICIES[config.eviction_policy]
        self.stats = CacheStats()
        self.prefixes = PrefixCache(config, self.stats, listener, root_key)
        self.pool = BlockPool(config.num_blocks, self._make_policy(config.num_blocks), self.prefixes.evict)
        self.pins = Pins(config, self.prefixes, self.pool, self.stats)
        self._growth = Growth(config, self.prefixes, self.pool)
        self._sharing = Sharing(self.prefixes, self.pool, self.stats)
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
        extents: list[Extent] = []
        num_blocks = num_whole_blocks = 0
        for extent, num_common in self.prefixes.index.walk(namespace, tokens, limit) if lookup else ():
            if not extent.is_usable(step):
                break
            extents.append(extent)
            num_whole_blocks, num_blocks = num_blocks, num_blocks + num_common
        return Match(namespace, tokens, tuple(extents), num_blocks, num_whole_blocks, lookup, step)

    def explain(self, match: Match) -> Ledger:
        """Every token that ``match`` was asked for, by reason. To be asked before ``admit`` evicts anything."""
        prefixes = self.prefixes
        memory = prefixes.memory.get(match.namespace)
        num_running = num_running_blocks(match, self._tables.values())
        return explain(match, prefixes.index, prefixes.census, memory, num_running)

    def fits(self, match: Match, num_tokens: int) -> bool:
        """Whether ``admit`` would succeed."""
        num_revived = match.num_unheld_blocks
        return self._growth.num_blocks(num_tokens) - match.num_blocks <= self.pool.num_available - num_revived

    def block_ids(self, request_id: RequestId) -> tuple[BlockId, ...]:
        """The block table of a request."""
        return tuple(map(BlockId, self._tables[request_id].ids))

    def tree(self, namespace: Namespace | None = None, max_nodes: int | None = None) -> list[TreeNode]:
        """What stands in the index, for people: of one namespace, or of all; at most the first ``max_nodes``."""
        return dump_tree(self.prefixes.index, self.stats, self.config.block_size, namespace, max_nodes)

    @property
    def tables(self) -> Mapping[RequestId, BlockTable]:
        """The block tables of all requests that hold blocks, in the order of their admission."""
        return MappingProxyType(self._tables)

    @property
    def usage(self) -> float:
        """Share of the blocks that requests or pins hold, 0 to 1."""
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
        self._tables[request_id] = table
        self._sharing.arrive(table, match)
        self._growth.grow(table, num_tokens, step)
        return table

    def allocate(self, request_id: RequestId, num_tokens: int, *, step: int) -> BlockTable | None:
        """Make room for the request's first ``num_tokens`` tokens; ``None``, and no change, if blocks are too few."""
        table = self._tables[request_id]
        num_new = self._growth.num_blocks(num_tokens) - table.num_blocks
        if num_new > 0 and num_new > self.pool.num_available:
            return None
        self._growth.grow(table, num_tokens, step)
        return table

    def commit(self, request_id: RequestId, num_computed_tokens: int) -> None:
        """The request's first ``num_computed_tokens`` tokens are computed: their full blocks are cached from now on.

        A block that another request has cached meanwhile is given up for that one: equal blocks are stored once.
        """
        table = self._tables[request_id]
        assert table.extent is None or table.extent.owner is None, "what the request has matched is not yet computed"
        self._growth.commit(table, num_computed_tokens)

    def withdraw(self, request_id: RequestId) -> None:
        """The step that was to compute the request's pending blocks came to nothing: they leave the index."""
        table = self._tables[request_id]
        for extent in reversed(table.pending_extents()):
            self.prefixes.withdraw(extent)
        table.no_pending()

    def dependents(self, request_id: RequestId) -> tuple[RequestId, ...]:
        """Requests that have matched pending blocks of this one, in the order of their admission."""
        lent = {extent for extent in self._tables[request_id].pending_extents() if extent.ref_count > 1}
        if not lent:
            return ()
        return tuple(table.request_id for table in self._tables.values() if not lent.isdisjoint(table.extents()))

    def free(self, request_id: RequestId, *, num_answer_tokens: int | None = None) -> None:
        """Take a request's blocks back, tail first, so that the beginning of a prompt outlives its end.

        ``num_answer_tokens``: how many tokens were generated, where the request's own tokens do not show it.
        """
        if self._tables[request_id].pending is not None:
            assert not self.dependents(request_id), self.dependents(request_id)
            self.withdraw(request_id)
        table = self._tables.pop(request_id)
        if num_answer_tokens is None:
            num_answer_tokens = table.tokens.num_tokens - table.num_prompt_tokens
        self.pool.put_back(table.ids_between(table.num_indexed))
        self._sharing.leave(table, num_answer_tokens)

    def touch(self, match: Match, *, num_answer_tokens: int = 0) -> None:
        """Find matched blocks and leave them, as a request does that computes nothing of its prompt."""
        self._sharing.touch(match, num_answer_tokens)

    def reset(self) -> bool:
        """Forget all that is cached, pinned or remembered. ``False``, and no change, while a request holds blocks."""
        if self._tables:
            return False
        for pin in self.pins.all():
            self.pins.remove(pin.name)
        self.pool.clear(self._make_policy(self.config.num_blocks))
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

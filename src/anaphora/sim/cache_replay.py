"""A trace through the cache core, one request after another: what would be reused, by either rule of counting.

Answers are cached with their prompts where the trace tells their tokens, as the engine does; a trace of hashes does not
tell which blocks they made. By the traces' rule only prompts are replayed, as published hit rates are of those.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.ledger import Ledger, Reason
from anaphora.kvcache.manager import KVCacheManager
from anaphora.kvcache.match import Match
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.sim.belady import BeladyEviction
from anaphora.sim.prompt_blocks import PromptBlocks
from anaphora.types import RequestId

NextUses = Sequence[Sequence[int]]
"""For each request and block, when it is used next: see :func:`anaphora.sim.prefix_paths.next_uses`."""


class CacheReplay:
    """A cache that prompts pass through. With ``next_uses``, Belady's policy decides in place of ``config``'s."""

    def __init__(self, config: CacheConfig, next_uses: NextUses | None = None) -> None:
        self._next_uses = next_uses
        belady = None if next_uses is None else BeladyEviction(config.num_blocks)
        self._belady = belady
        self._knows_future = belady is not None
        self.manager = KVCacheManager(config, new_policy=None if belady is None else lambda num_blocks: belady)
        self._num_requests = 0

    def ask(self, prompt: PromptBlocks) -> Ledger:
        """Look a prompt up by the engine's rule (full blocks, one token computed), then compute and cache the rest.

        Of a prompt that is longer than the cache, the beginning is cached.
        """
        manager = self.manager
        match = whole = manager.match(prompt.namespace, prompt.for_engine(), lookup=prompt.lookup)
        ledger = manager.explain(whole)
        num_blocks = manager.config.num_blocks
        if prompt.num_blocks > num_blocks:
            match = manager.match(prompt.namespace, prompt.for_engine(num_blocks), lookup=prompt.lookup)
        answer = prompt.answer if match is whole else None
        self._compute(match, match.tokens.num_tokens, whole.tokens, prompt.num_output_tokens, answer)
        manager.stats.count(ledger)
        return ledger

    def ask_by_trace_rule(self, prompt: PromptBlocks) -> int:
        """Look a prompt up as published figures do, and cache all of its blocks. How many were there."""
        manager = self.manager
        match = manager.match(prompt.namespace, prompt.for_trace_rule())
        num_hits = match.num_blocks
        num_blocks = min(prompt.num_blocks, manager.config.num_blocks)
        if num_hits >= num_blocks:
            self._end_request(match.block_ids if self._knows_future else ())
            manager.touch(match, num_answer_tokens=prompt.num_output_tokens or 0)
        else:
            self._compute(match, num_blocks, None, prompt.num_output_tokens)
        # What this namespace loses is remembered, as for the engine's rule: policies learn from who asks for it again.
        manager.prefixes.memory.touch(prompt.namespace)
        return num_hits

    def _compute(
        self,
        match: Match,
        num_tokens: int,
        remembered: TokenBlocks | None,
        num_output_tokens: int | None,
        answer: Sequence[int] | None = None,
    ) -> None:
        """A request that nobody disturbs."""
        manager, request_id = self.manager, RequestId(f"replayed-{self._num_requests + 1}")
        table = manager.admit(request_id, match, num_tokens, step=self._num_requests)
        assert table is not None, "nobody holds blocks, but there is no room"
        if remembered is not None:
            manager.remember_prompt(match.namespace, remembered.to_bytes(), request_id)
        manager.commit(request_id, num_tokens)
        if answer:
            num_tokens = self._answer(request_id, match.tokens, answer)
        num_full = num_tokens // manager.config.block_size
        self._end_request(table.ids_between(0, num_full) if self._knows_future else ())
        manager.free(request_id, num_answer_tokens=num_output_tokens)

    def _answer(self, request_id: RequestId, tokens: TokenBlocks, answer: Sequence[int]) -> int:
        """Compute an answer as far as it fits the cache; how many tokens are computed then. Its last token never is."""
        manager = self.manager
        for token_id in answer[:-1]:
            tokens.append(token_id)
        num_tokens = min(tokens.num_tokens, manager.config.num_slots)
        table = manager.allocate(request_id, num_tokens, step=self._num_requests)
        assert table is not None, "nobody else holds blocks, but there is no room"
        manager.commit(request_id, num_tokens)
        return num_tokens

    def _end_request(self, block_ids: Sequence[int]) -> None:
        if self._belady is not None and self._next_uses is not None:
            self._belady.expect(block_ids, self._next_uses[self._num_requests][: len(block_ids)])
        self._num_requests += 1


@dataclass(slots=True)
class EngineCounts:
    """What the engine's rule gives for a whole trace."""

    num_requests: int = 0
    num_prompt_tokens: int = 0
    num_prompt_blocks: int = 0
    num_cached_tokens: int = 0
    num_cached_blocks: int = 0
    num_oversized: int = 0
    """Prompts longer than the cache: an engine would refuse them; only their beginning was cached."""
    num_evicted_blocks: int = 0
    num_tokens_by_reason: Counter[Reason] = field(default_factory=Counter)
    cached_tokens_by_request: list[int] = field(default_factory=list)


@dataclass(slots=True)
class TraceRuleCounts:
    """What the published traces' rule gives for a whole trace."""

    num_hit_tokens: int = 0
    num_hit_blocks: int = 0
    hit_blocks_by_request: list[int] = field(default_factory=list)


def count_by_engine_rule(
    prompts: Sequence[PromptBlocks], config: CacheConfig, next_uses: NextUses | None, progress: Callable[[int], None]
) -> EngineCounts:
    """All prompts through a new cache. ``progress`` is told how many requests are done, now and then."""
    replay, counts = CacheReplay(config, next_uses), EngineCounts()
    for prompt in _watched(prompts, progress):
        ledger = replay.ask(prompt)
        num_blocks, num_cached_tokens = prompt.num_blocks, ledger.num_cached_tokens
        counts.num_prompt_blocks += num_blocks
        counts.cached_tokens_by_request.append(num_cached_tokens)
        counts.num_cached_blocks += num_cached_tokens // prompt.block_size
        counts.num_oversized += num_blocks > config.num_blocks
    stats = replay.manager.stats
    counts.num_requests, counts.num_prompt_tokens = stats.num_requests, stats.num_prompt_tokens
    counts.num_cached_tokens, counts.num_evicted_blocks = stats.num_cached_tokens, stats.num_evicted_blocks
    counts.num_tokens_by_reason = stats.num_tokens_by_reason
    return counts


def count_by_trace_rule(
    prompts: Sequence[PromptBlocks], config: CacheConfig, next_uses: NextUses | None, progress: Callable[[int], None]
) -> TraceRuleCounts:
    """The same by the other rule. ``config.block_size`` is 1: blocks are the units."""
    replay, counts = CacheReplay(config, next_uses), TraceRuleCounts()
    for prompt in _watched(prompts, progress):
        num_hits = replay.ask_by_trace_rule(prompt)
        counts.num_hit_blocks += num_hits
        counts.hit_blocks_by_request.append(num_hits)
        counts.num_hit_tokens += prompt.num_tokens_in(num_hits)
    return counts


_REQUESTS_PER_WORD = 200


def _watched(prompts: Sequence[PromptBlocks], progress: Callable[[int], None]) -> Iterator[PromptBlocks]:
    for number, prompt in enumerate(prompts, 1):
        yield prompt
        if number % _REQUESTS_PER_WORD == 0 or number == len(prompts):
            progress((number - 1) % _REQUESTS_PER_WORD + 1)

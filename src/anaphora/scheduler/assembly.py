"""How a step is put together: who goes on, who is let in, who has to give way, and how letting in is undone."""

from typing import Literal

from anaphora.kvcache.block_table import BlockTable
from anaphora.kvcache.manager import KVCacheManager
from anaphora.scheduler.config import SchedulerConfig
from anaphora.scheduler.request import Request
from anaphora.scheduler.roster import Roster
from anaphora.scheduler.stats import SchedulerStats
from anaphora.scheduler.step import Step

PREFILL_PER_DECODE = 4
"""Prompt tokens for every token of decoding that a step may hold whatever the target: each step begun for less would
spend more of its time on those who decode."""

PASSES_PER_STEP = 6
"""At most: who decodes waits for them."""
TARGETS_PER_PASS = 2
"""A pass with more of them holds a long prompt, for which who decodes waits long enough."""


class StepAssembly:
    """Fills steps from the roster, as far as their tokens and the cache's blocks reach."""

    def __init__(self, config: SchedulerConfig, cache: KVCacheManager, roster: Roster, stats: SchedulerStats) -> None:
        self._config = config
        self._cache = cache
        self._roster = roster
        self._stats = stats

    def fill(self, step: Step) -> None:
        """Running requests first, then waiting ones, both in the order of arrival; none is let in where one had to
        give way."""
        self._schedule_running(step)
        if not step.preempted:
            self._admit_waiting(step)

    def extend(self, step: Step) -> None:
        """Another pass of waiting requests, whom only the target has kept out so far."""
        target = self._config.target_prefill_tokens
        has_target = target > 0 and step.most_prefill_tokens <= TARGETS_PER_PASS * target
        if has_target and step.num_passes < PASSES_PER_STEP and not step.preempted:
            self._admit_waiting(step)

    def put_back(self, request: Request, step: Step) -> None:
        """Undo an admission of this step: the request waits again."""
        is_first = step.admitted.pop(request)
        del step.parts[request]
        self._cache.free(request.request_id)
        if is_first:
            self._cache.forget_prompt(request.namespace, request.blocks.to_bytes(), request.request_id)
        request.revoke_admission(is_first=is_first)
        self._roster.wait(request)

    def _schedule_running(self, step: Step) -> None:
        index, running = 0, self._roster.running
        while index < len(running) and step.budget > 0:
            request = running[index]
            num_computed = request.num_computed_tokens
            num_new_tokens = min(request.num_tokens - num_computed, step.budget)
            table = self._make_room(request, num_computed + num_new_tokens, step)
            if table is None:
                break
            step.add(request, num_new_tokens, table.ids)
            index += 1

    def _make_room(self, request: Request, num_tokens: int, step: Step) -> BlockTable | None:
        """Get blocks for a running request, from the latest arrived if need be; ``None`` if that is itself.

        Before a request that runs alone gives up, pins do: they must not keep anybody from being served.
        """
        running = self._roster.running
        while (table := self._cache.allocate(request.request_id, num_tokens, step=step.number)) is None:
            if len(running) == 1 and self._cache.pins.give_way():
                continue
            victim = running.last
            self._preempt(victim, step)
            if victim is request:
                return None
        return table

    def _preempt(self, request: Request, step: Step) -> None:
        self._cache.free(request.request_id)
        request.preempt()
        self._roster.wait(request)
        step.preempted.append(request.request_id)
        self._stats.num_preemptions += 1

    def _admit_waiting(self, step: Step) -> None:
        waiting, running = self._roster.waiting, self._roster.running
        while waiting and step.budget > 0 and len(running) < self._config.max_num_seqs and not self._is_enough(step):
            obstacle = self._admit(waiting.first, step)
            if obstacle == "tokens" or (obstacle == "blocks" and (running or not self._cache.pins.give_way())):
                break  # nobody overtakes

    def _is_enough(self, step: Step) -> bool:
        """Whether a step computes so much that the next request had better wait for another."""
        target = self._config.target_prefill_tokens
        return target > 0 and step.num_prefill_tokens >= max(target, PREFILL_PER_DECODE * step.num_single_tokens)

    def _admit(self, request: Request, step: Step) -> Literal["tokens", "blocks"] | None:
        """Let a waiting request run if the step has tokens and the cache has blocks for it; else what is lacking."""
        cache = self._cache
        match = cache.match(request.namespace, request.blocks, lookup=request.lookup, step=step.number)
        num_missing = request.num_tokens - match.num_cached_tokens
        num_new_tokens = min(num_missing, step.budget)
        if num_new_tokens < num_missing and not self._config.enable_chunked_prefill:
            return "tokens"
        num_tokens = match.num_cached_tokens + num_new_tokens
        if not cache.fits(match, num_tokens):
            return "blocks"
        is_first = request.ledger is None
        ledger = request.ledger or cache.explain(match)
        table = cache.admit(request.request_id, match, num_tokens, step=step.number)
        assert table is not None
        if is_first:
            cache.remember_prompt(request.namespace, request.blocks.to_bytes(), request.request_id)
        self._roster.run(request)
        request.admit(match.num_cached_tokens, ledger)
        step.admitted[request] = is_first
        step.add(request, num_new_tokens, table.ids)
        return None

"""One trace, many caches: every policy at every capacity, over as many processes as wanted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from anaphora.errors import ConfigError
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.eviction import EVICTION_POLICIES
from anaphora.kvcache.ledger import Reason
from anaphora.sim.cache_replay import EngineCounts, NextUses, TraceRuleCounts, count_by_engine_rule, count_by_trace_rule
from anaphora.sim.collector import collector_paused
from anaphora.sim.prefix_paths import count_prefixes, next_uses, paths_of, paths_with_answers
from anaphora.sim.prompt_blocks import PromptBlocks
from anaphora.sim.spread import Progress, Task, spread

if TYPE_CHECKING:
    from array import array

    from anaphora.sim.estimates import Estimate
    from anaphora.sim.lru_curve import LRUCurve

BELADY = "belady"
DEFAULT = "default"


class RunPlan(NamedTuple):
    """One cache to try; ``num_blocks`` is ``None`` for a cache without bounds."""

    policy: str
    num_blocks: int | None


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """What one cache would have done."""

    plan: RunPlan
    block_size: int
    engine: EngineCounts
    trace_rule: TraceRuleCounts
    sampled_blocks: int | None = None
    """Size of the cache that a sample was replayed in."""
    estimates: "Mapping[str, Estimate] | None" = None
    """For the whole trace, by the names of the rates, where only a sample was replayed."""

    def to_json(self) -> dict[str, Any]:
        """Plain rates are by the engine's rule, ``trace_rule_`` ones as published figures count.

        Where a sample was replayed, rates are estimates for the whole trace, and all counts are of the sample.
        """
        counted = self._counted()
        if self.estimates is None:
            return counted
        counted["sampled_capacity_blocks"] = self.sampled_blocks
        for name, estimate in self.estimates.items():
            counted[f"sampled_{name}"] = counted[name]
            counted[name], counted[f"{name}_error"] = estimate
        return counted

    def _counted(self) -> dict[str, Any]:
        engine, trace_rule = self.engine, self.trace_rule
        return {
            "policy": self.plan.policy,
            "capacity_blocks": self.plan.num_blocks,
            "block_size": self.block_size,
            "num_requests": engine.num_requests,
            "prompt_tokens": engine.num_prompt_tokens,
            "prompt_blocks": engine.num_prompt_blocks,
            "cached_tokens": engine.num_cached_tokens,
            "cached_blocks": engine.num_cached_blocks,
            "token_hit_rate": engine.num_cached_tokens / engine.num_prompt_tokens,
            "block_hit_rate": engine.num_cached_blocks / engine.num_prompt_blocks,
            "trace_rule_cached_tokens": trace_rule.num_hit_tokens,
            "trace_rule_cached_blocks": trace_rule.num_hit_blocks,
            "trace_rule_token_hit_rate": trace_rule.num_hit_tokens / engine.num_prompt_tokens,
            "trace_rule_block_hit_rate": trace_rule.num_hit_blocks / engine.num_prompt_blocks,
            "evicted_blocks": engine.num_evicted_blocks,
            "oversized_requests": engine.num_oversized,
            "ledger": {reason.value: engine.num_tokens_by_reason.get(reason, 0) for reason in Reason},
        }


def core_policy(name: str) -> str:
    """The cache core's name of a policy that people may ask for.

    ``default`` is what the engine does unless told otherwise; ``belady`` knows the future and has no name there.

    Raises:
        ConfigError: there is no such policy.
    """
    if name in EVICTION_POLICIES:
        return name
    if name in (DEFAULT, BELADY):
        return CacheConfig(num_blocks=1).eviction_policy
    known = ", ".join(sorted({*EVICTION_POLICIES, DEFAULT, BELADY}))
    raise ConfigError(f"policy {name!r} is not known; choose one of: {known}")


class Sweep:
    """A trace that was cut into blocks, and the caches that it is sent through."""

    def __init__(self, prompts: Sequence[PromptBlocks]) -> None:
        self.prompts = prompts
        self.block_size = prompts[0].block_size

    @cached_property
    def paths(self) -> list["array[int]"]:
        """The prefixes of each prompt: see :func:`anaphora.sim.prefix_paths.paths_of`."""
        return paths_of(self.prompts)

    @cached_property
    def computed_paths(self) -> list["array[int]"]:
        """The same of all blocks that each request computes, those of a known answer too."""
        return paths_with_answers(self.prompts) if any(prompt.answer for prompt in self.prompts) else self.paths

    @cached_property
    def working_set(self) -> int:
        """Distinct blocks of the trace, partial ones too."""
        return count_prefixes(self.paths)

    @cached_property
    def _engine_future(self) -> NextUses:
        """When each block is used next, by the engine's rule."""
        return next_uses(self.computed_paths, [prompt.num_reusable_blocks for prompt in self.prompts])

    @cached_property
    def _trace_rule_future(self) -> NextUses:
        """The same by the other rule."""
        return next_uses(self.paths, [prompt.num_blocks for prompt in self.prompts])

    @cached_property
    def _trace_rule_curve(self) -> "LRUCurve":
        from anaphora.sim.lru_curve import trace_rule_block_curve  # with numpy, which replays do without

        return trace_rule_block_curve(self.prompts, self.paths)

    @property
    def num_requests_per_run(self) -> int:
        """Each request is replayed twice, once by each rule."""
        return 2 * len(self.prompts)

    def run(self, plan: RunPlan, progress: Progress) -> SimulatedRun:
        """One cache. ``progress`` is told of requests done; there are two for each of the trace, one for each rule."""
        return self.run_all([plan], progress)[0]

    def run_all(self, plans: Sequence[RunPlan], progress: Progress, *, num_jobs: int = 1) -> list[SimulatedRun]:
        """Every cache, in the order of ``plans``."""
        return self.runs_of(plans, spread(self.tasks(plans), progress, num_jobs=num_jobs))

    def tasks(self, plans: Sequence[RunPlan]) -> list[Task[Any]]:
        """What there is to do for ``plans``: each by either rule, side by side with all others.

        Raises:
            ConfigError: there is no such policy.
        """
        for plan in plans:
            core_policy(plan.policy)
        return [partial(count, plan) for plan in plans for count in (self._by_engine_rule, self._by_trace_rule)]

    def runs_of(self, plans: Sequence[RunPlan], counts: Sequence[Any]) -> list[SimulatedRun]:
        """The runs of ``plans``, from the results of their tasks."""
        halves = zip(plans, counts[::2], counts[1::2], strict=True)
        return [SimulatedRun(plan, self.block_size, engine, trace_rule) for plan, engine, trace_rule in halves]

    def _by_engine_rule(self, plan: RunPlan, progress: Progress) -> EngineCounts:
        future = self._engine_future if plan.policy == BELADY else None
        with collector_paused():
            return count_by_engine_rule(self.prompts, self._config(plan), future, progress)

    def _by_trace_rule(self, plan: RunPlan, progress: Progress) -> TraceRuleCounts:
        config = replace(self._config(plan), block_size=1, max_remembered_prompts=0)
        has_room = config.num_blocks == self._unbounded
        if plan.policy != BELADY and (config.eviction_policy == "lru" or has_room):
            counts = self._lru_by_trace_rule(config.num_blocks)
            progress(len(self.prompts))
            return counts
        future = self._trace_rule_future if plan.policy == BELADY else None
        with collector_paused():
            return count_by_trace_rule(self.prompts, config, future, progress)

    @cached_property
    def _unbounded(self) -> int:
        """Blocks with which a cache never has to evict."""
        return self.working_set + max(map(len, self.paths))

    def _config(self, plan: RunPlan) -> CacheConfig:
        num_blocks = self._unbounded if plan.num_blocks is None else min(plan.num_blocks, self._unbounded)
        return CacheConfig(num_blocks=num_blocks, block_size=self.block_size, eviction_policy=core_policy(plan.policy))

    def _lru_by_trace_rule(self, num_blocks: int) -> TraceRuleCounts:
        """What a replay would count, without one: reuse distances say it of LRU, and of any cache with room for all."""
        hits: list[int] = self._trace_rule_curve.hits_by_request(num_blocks).tolist()
        num_tokens = sum(prompt.num_tokens_in(count) for prompt, count in zip(self.prompts, hits, strict=True))
        return TraceRuleCounts(num_tokens, sum(hits), hits)

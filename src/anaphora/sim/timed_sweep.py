"""One trace, many servers in simulated time: every policy at every capacity, and the same without a prefix cache."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from anaphora.errors import ConfigError, TraceError
from anaphora.kvcache.config import CacheConfig
from anaphora.scheduler.config import DEFAULT_TARGET_PREFILL_TOKENS, SchedulerConfig
from anaphora.sim.collector import collector_paused
from anaphora.sim.latency import LatencyModel
from anaphora.sim.predict import SimulatedRequest
from anaphora.sim.prefix_paths import count_prefixes, paths_of
from anaphora.sim.prompt_blocks import PromptBlocks
from anaphora.sim.served import TimedRequest, Timeline
from anaphora.sim.spread import Progress, spread
from anaphora.sim.sweep import BELADY, RunPlan, core_policy
from anaphora.sim.timeline import run_timeline
from anaphora.sim.timing import timing_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """What the simulated server may do in a step; names and defaults are those of `anaphora serve`."""

    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    target_prefill_tokens: int = DEFAULT_TARGET_PREFILL_TOKENS


class TimedPlan(NamedTuple):
    """One server to try; ``caching``: with its prefix cache, or, with the same memory, without."""

    run: RunPlan
    caching: bool


class TimedSweep:
    """A trace that was cut into blocks, the times of its requests, and the servers that it is sent to.

    ``rate_scale``: how many times as fast as in the trace requests come. ``scale``: as in :class:`Sweep`.

    Raises:
        TraceError: the trace does not tell when requests came.
        ConfigError: ``rate_scale`` is not above 0.
    """

    def __init__(
        self,
        prompts: Sequence[PromptBlocks],
        latency: LatencyModel,
        limits: ServerLimits,
        *,
        rate_scale: float = 1.0,
        scale: float = 1.0,
    ) -> None:
        if not 0 < rate_scale < float("inf"):
            raise ConfigError(f"the rate of arrivals can be scaled by a number above 0, not by {rate_scale}")
        if any(prompt.arrival_s is None for prompt in prompts):
            raise TraceError("the trace does not tell when its requests came: without times there are no waiting times")
        self.prompts = prompts
        self._latency = latency
        self._limits = limits
        self._rate_scale = rate_scale
        self._scale = scale

    @property
    def num_requests_per_run(self) -> int:
        """Each request is served once."""
        return len(self.prompts)

    @property
    def num_without_output(self) -> int:
        """Requests of which the trace does not tell how much was answered: one token is simulated."""
        return sum(prompt.num_output_tokens is None for prompt in self.prompts)

    def requests(self) -> Iterator[TimedRequest]:
        """Every request as the scheduler takes it, times counted from the first one."""
        begin_s = self.prompts[0].arrival_s or 0.0
        for prompt in self.prompts:
            output = prompt.answer if prompt.answer is not None else prompt.num_output_tokens
            asked = SimulatedRequest(
                prompt.namespace, prompt.token_ids(), 1 if output is None else output, prompt.lookup
            )
            yield TimedRequest(((prompt.arrival_s or 0.0) - begin_s) / self._rate_scale, asked)

    def timeline(self, plan: TimedPlan, progress: Progress = lambda num_done: None) -> Timeline:
        """One server, request by request.

        Raises:
            ConfigError: the policy looks into the future.
        """
        if plan.run.policy == BELADY:
            raise ConfigError(f"{BELADY} knows the order of requests, but not when blocks are free: it has no timeline")
        cache = CacheConfig(
            num_blocks=self._num_blocks(plan.run.num_blocks),
            block_size=self.prompts[0].block_size,
            eviction_policy=core_policy(plan.run.policy),
            enable_prefix_caching=plan.caching,
        )
        scheduler = SchedulerConfig(
            max_num_seqs=self._limits.max_num_seqs,
            max_num_batched_tokens=self._limits.max_num_batched_tokens,
            target_prefill_tokens=self._limits.target_prefill_tokens,
            max_model_len=cache.num_slots + 1,
        )
        with collector_paused():
            return run_timeline(
                self.requests(), cache=cache, scheduler=scheduler, latency=self._latency, progress=progress
            )

    def run(self, plan: TimedPlan, progress: Progress) -> dict[str, Any]:
        """One server, as :func:`timing_of` sums it up. ``progress`` is told of requests done."""
        return timing_of(self.timeline(plan, progress))

    def run_all(
        self, plans: Sequence[TimedPlan], progress: Progress, *, num_jobs: int = 1
    ) -> dict[TimedPlan, dict[str, Any]]:
        """Every server by its plan."""
        distinct = list(dict.fromkeys(map(_simplified, plans)))
        tasks = [partial(self.run, plan) for plan in distinct]
        found = dict(zip(distinct, spread(tasks, progress, num_jobs=num_jobs), strict=True))
        return {plan: found[_simplified(plan)] for plan in plans}

    def _num_blocks(self, wanted: int | None) -> int:
        """Without bounds: more than prompts, answers and what running requests hold twice can ever fill."""
        size = self.prompts[0].block_size
        answers = sum((prompt.num_output_tokens or 1) // size + 2 for prompt in self.prompts)
        longest = max(prompt.num_blocks for prompt in self.prompts)
        enough = count_prefixes(paths_of(self.prompts)) + answers + self._limits.max_num_seqs * longest
        everything = answers + sum(prompt.num_blocks for prompt in self.prompts)
        unbounded = min(enough, everything)
        return unbounded if wanted is None else min(max(1, round(wanted * self._scale)), unbounded)


def num_distinct(plans: Sequence[TimedPlan]) -> int:
    """How many of them differ."""
    return len(set(map(_simplified, plans)))


def _simplified(plan: TimedPlan) -> TimedPlan:
    """Without a prefix cache there is nothing to evict, whatever the policy."""
    return plan if plan.caching else plan._replace(run=plan.run._replace(policy="lru"))

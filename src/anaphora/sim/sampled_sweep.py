"""A sweep over a sample of a trace that answers for the whole."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from anaphora.sim.estimates import Estimate, RuleCount, SampledCount, as_array, estimate, exact, matching_capacity
from anaphora.sim.lru_curve import engine_curve, trace_rule_block_curve, trace_rule_curve
from anaphora.sim.prompt_blocks import PromptBlocks
from anaphora.sim.sampling import Sample
from anaphora.sim.spread import Progress, Task, spread
from anaphora.sim.sweep import RunPlan, SimulatedRun, Sweep

_EXACT = "lru"

Counts = Mapping[str, RuleCount]


class SampledSweep:
    """Replays the sample in caches that match those of the plans. Its runs' rates are estimates for the whole trace."""

    def __init__(self, whole: Sweep, drawn: Sample) -> None:
        self._drawn = drawn
        self._sweep = Sweep(drawn.prompts)
        self._whole = _counts(whole)
        self._lengths = as_array([prompt.num_blocks for prompt in whole.prompts])
        self._part = _counts(self._sweep)
        self._groups = np.unique(as_array(drawn.groups), return_inverse=True)[1]
        self.prompts = drawn.prompts

    @property
    def num_requests_per_run(self) -> int:
        """As many as the sample has, by both rules."""
        return self._sweep.num_requests_per_run

    def run_all(self, plans: Sequence[RunPlan], progress: Progress, *, num_jobs: int = 1) -> list[SimulatedRun]:
        """Every cache, in the order of ``plans``."""
        return self.runs_of(plans, spread(self.tasks(plans), progress, num_jobs=num_jobs))

    def tasks(self, plans: Sequence[RunPlan]) -> list[Task[Any]]:
        """As :meth:`Sweep.tasks`, over the sample."""
        return self._sweep.tasks(self._replayed(plans))

    def runs_of(self, plans: Sequence[RunPlan], counts: Sequence[Any]) -> list[SimulatedRun]:
        """The runs of ``plans``, from the results of their tasks."""
        replayed = self._replayed(plans)
        runs = dict(zip(replayed, self._sweep.runs_of(replayed, counts), strict=True))
        return [self._estimated(plan, runs[self._matching(plan)]) for plan in plans]

    def _replayed(self, plans: Sequence[RunPlan]) -> list[RunPlan]:
        """What is replayed for ``plans``: plans of different sizes may match the same one."""
        return list(dict.fromkeys(map(self._matching, plans)))

    def _matching(self, plan: RunPlan) -> RunPlan:
        if plan.num_blocks is None:
            return plan
        whole, part = self._whole["token_hit_rate"], self._part["token_hit_rate"]
        return plan._replace(num_blocks=matching_capacity(whole, part, plan.num_blocks, self._drawn.scale))

    def _estimated(self, plan: RunPlan, run: SimulatedRun) -> SimulatedRun:
        hits = _hits_by_request(run, self.prompts)
        num_oversized = 0 if plan.num_blocks is None else int(np.count_nonzero(self._lengths > plan.num_blocks))
        return replace(
            run,
            plan=plan,
            engine=replace(run.engine, num_oversized=num_oversized),  # of the whole trace, for its own cache
            sampled_blocks=run.plan.num_blocks,
            estimates={name: self._estimate(name, plan, run.plan.num_blocks, hits[name]) for name in hits},
        )

    def _estimate(self, name: str, plan: RunPlan, sampled_blocks: int | None, hits: Any) -> Estimate:
        whole, part = self._whole[name], self._part[name]
        if plan.num_blocks is None or sampled_blocks is None or plan.policy == _EXACT:
            return exact(whole, plan.num_blocks)
        sampled = SampledCount(hits, self._groups, self._drawn.fraction, sampled_blocks)
        return estimate(whole, plan.num_blocks, part, sampled)


def _counts(sweep: Sweep) -> Counts:
    """By the names of the rates."""
    prompts, paths = sweep.prompts, sweep.paths
    num_tokens = sum(prompt.num_tokens for prompt in prompts)
    num_blocks = sum(map(len, paths))
    engine = engine_curve(prompts, sweep.computed_paths)
    return {
        "token_hit_rate": RuleCount(engine, num_tokens, 1),
        "block_hit_rate": RuleCount(engine, num_blocks * prompts[0].block_size, 1),
        "trace_rule_token_hit_rate": RuleCount(trace_rule_curve(prompts, paths), num_tokens, 0),
        "trace_rule_block_hit_rate": RuleCount(trace_rule_block_curve(prompts, paths), num_blocks, 0),
    }


def _hits_by_request(run: SimulatedRun, prompts: Sequence[PromptBlocks]) -> dict[str, Any]:
    """In the units of the curves."""
    engine, blocks = as_array(run.engine.cached_tokens_by_request), run.trace_rule.hit_blocks_by_request
    tokens = [prompt.num_tokens_in(count) for prompt, count in zip(prompts, blocks, strict=True)]
    return {
        "token_hit_rate": engine,
        "block_hit_rate": engine,
        "trace_rule_token_hit_rate": as_array(tokens),
        "trace_rule_block_hit_rate": as_array(blocks),
    }

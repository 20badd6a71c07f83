"""From settings and a target to the stages of a run, and what their requests ask."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from anaphora.lab.load.capacity import processes_for
from anaphora.lab.load.chat_planning import chats, poisson_schedule
from anaphora.lab.load.probes import takes_ignore_eos
from anaphora.lab.load.records import Stage
from anaphora.lab.load.situation import Schedule, Situation
from anaphora.lab.load.stages import Shares, sweep
from anaphora.lab.load.tally import Pacing
from anaphora.lab.load.trace_planning import due_of, numbered, read_trace, replayed
from anaphora.lab.load.vocabulary import find_vocabulary


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """``exact_lengths``: prompts were sized by the target's own tokenizer."""

    stages: Sequence[Stage]
    shares: Shares
    pacing: Pacing
    exact_lengths: bool
    ignores_eos: bool


async def plan_load(situation: Situation) -> LoadPlan:
    """Ask the target what it takes, size the prompts, order the stages.

    Raises:
        ConfigError: the load or its prompts cannot be sent so.
        TraceError: the trace cannot be replayed.
    """
    settings = situation.settings
    stages = sweep(settings.loop, settings.levels, settings.rounds, partial(_processes, situation))
    replay = None if settings.trace is None else read_trace(situation, settings.trace)
    vocabulary = await find_vocabulary(situation.tokenizer.count_text)
    ignores_eos = await takes_ignore_eos(situation.addresses["on"], situation.model)
    if not ignores_eos:
        situation.note("the target does not take ignore_eos: answers may end before --output-tokens")
    schedule: Schedule | None = None
    if replay is not None:
        due = due_of(situation, replay)
        for stage in stages:
            due(stage)  # one in which nothing is due is told now, not after the stages before it
        workload, exact = await replayed(situation, replay, due, vocabulary, ignores_eos)
        schedule = numbered(due)
    else:
        workload, exact = await chats(situation, vocabulary, ignores_eos)
        schedule = None if settings.loop == "closed" else poisson_schedule(situation)
    shares = Shares(situation.addresses, workload, schedule, settings.warmup_s, situation.capacity.per_process)
    pacing = Pacing(settings.warmup_s, settings.duration_s, settings.num_requests)
    return LoadPlan(stages, shares, pacing, exact, ignores_eos)


def _processes(situation: Situation, level: float) -> int:
    settings = situation.settings
    if settings.loop == "closed":
        least = processes_for(round(level), situation.capacity, settings.most_processes)
        return min(max(least, settings.processes or 1), round(level))
    processes_for(1, situation.capacity, settings.most_processes)
    return settings.processes or max(1, settings.most_processes // 2)

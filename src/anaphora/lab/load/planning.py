"""From settings and a target to the stages of a run, and what their requests ask."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from anaphora.errors import ConfigError
from anaphora.lab.arms import ArmsProof, Mechanism
from anaphora.lab.load.arrivals import of_trace, poisson
from anaphora.lab.load.capacity import Capacity, processes_for
from anaphora.lab.load.conductor import Pacing
from anaphora.lab.load.jobs import Address
from anaphora.lab.load.probes import takes_ignore_eos, takes_token_ids
from anaphora.lab.load.records import Stage
from anaphora.lab.load.replay import Replay, read_replay
from anaphora.lab.load.settings import LoadSettings
from anaphora.lab.load.stages import Shares, sweep
from anaphora.lab.load.vocabulary import Vocabulary, find_vocabulary
from anaphora.lab.load.workloads import (
    NONCE_TOKENS,
    AnyWorkload,
    Asking,
    BlockWorkload,
    ChatWorkload,
    VerbatimWorkload,
)
from anaphora.lab.targets.base import PromptTokenizer, Target
from anaphora.lab.workloads.prompts import PromptFactory
from anaphora.lab.workloads.sizing import largest_fit, token_counter
from anaphora.lab.workloads.texts import texts_of
from anaphora.traces.records import Arm

_TAIL_S = 60.0
"""So long the load goes on at most for the measured requests that are still unanswered."""
_TEMPLATE_TOKENS = 96

Due = Callable[[Stage], list[tuple[float, int]]]
"""When requests of a trace are due in a stage, with their places in the trace; in order."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """``exact_lengths``: prompts were sized by the target's own tokenizer."""

    stages: Sequence[Stage]
    shares: Shares
    pacing: Pacing
    exact_lengths: bool
    ignores_eos: bool


@dataclass(frozen=True, slots=True)
class Planner:
    """What planning needs beside the settings. ``note`` is told what people should know."""

    settings: LoadSettings
    target: Target
    tokenizer: PromptTokenizer
    addresses: Mapping[Arm, Address]
    model: str
    extra: Mapping[str, bool]
    """Further fields that requests to this kind of server have."""
    max_model_len: int | None
    run_id: str
    lang: str
    seed: int
    proof: ArmsProof
    capacity: Capacity
    note: Callable[[str], None]

    async def plan(self) -> LoadPlan:
        """Ask the target what it takes, size the prompts, order the stages.

        Raises:
            ConfigError: the load or its prompts cannot be sent so.
            TraceError: the trace cannot be replayed.
        """
        settings = self.settings
        stages = sweep(settings.loop, settings.levels, settings.rounds, self._processes)
        replay = None if settings.trace is None else self._read(settings.trace)
        vocabulary = await find_vocabulary(self.tokenizer.count_text)
        ignores_eos = await takes_ignore_eos(self.addresses["on"], self.model)
        if not ignores_eos:
            self.note("the target does not take ignore_eos: answers may end before --output-tokens")
        schedule: Callable[[Stage], list[tuple[float, int]]] | None = None
        if replay is not None:
            due = self._due(replay)
            workload, exact = await self._replayed(replay, due, vocabulary, ignores_eos)
            schedule = _numbered(due)
        else:
            workload, exact = await self._chats(vocabulary, ignores_eos)
            schedule = None if settings.loop == "closed" else self._poisson
        shares = Shares(self.addresses, workload, schedule, settings.warmup_s, self.capacity.per_process)
        return LoadPlan(stages, shares, self._pacing(), exact, ignores_eos)

    def _processes(self, level: float) -> int:
        if self.settings.loop == "closed":
            least = processes_for(round(level), self.capacity, self.settings.most_processes)
            return min(max(least, self.settings.processes or 1), round(level))
        processes_for(1, self.capacity, self.settings.most_processes)
        return self.settings.processes or max(1, self.settings.most_processes // 2)

    def _pacing(self) -> Pacing:
        settings = self.settings
        return Pacing(settings.warmup_s, settings.duration_s, settings.num_requests)

    def _asking(self, stage: Stage, ignores_eos: bool) -> Asking:
        return Asking(
            model=self.model,
            seed=f"{self.run_id}/{stage.round}/{stage.level:g}",
            mechanism=self.proof.mechanism,
            must_miss=stage.arm == "off",
            ignores_eos=ignores_eos,
            extra=self.extra,
        )

    async def _chats(self, vocabulary: Vocabulary, ignores_eos: bool) -> tuple[Callable[[Stage], AnyWorkload], bool]:
        """Chats behind shared system prompts, sized as asked."""
        settings, texts = self.settings, texts_of(self.lang)
        needed = settings.prefix_tokens + settings.unique_tokens + settings.output_tokens + _TEMPLATE_TOKENS
        if self.max_model_len is not None and needed > self.max_model_len:
            raise ConfigError(
                f"{settings.prefix_tokens} + {settings.unique_tokens} prompt tokens, {settings.output_tokens} output "
                f"tokens and the template do not fit the context of {self.max_model_len}: ask for fewer"
            )
        samples = PromptFactory(self.run_id, Mechanism.NONCE, texts)

        def sample(num_units: int) -> str:
            return texts.system_prompt(samples.edition(f"sample/{num_units}"), num_units)

        count, exact = await token_counter(self.target, self.tokenizer, sample)
        edition = samples.edition("size")
        units = await largest_fit(lambda n: texts.system_prompt(edition, n), settings.prefix_tokens, count)
        question_tokens = await count(f" {texts.question}")

        def workload(stage: Stage) -> ChatWorkload:
            return ChatWorkload(
                asking=self._asking(stage, ignores_eos),
                lang=self.lang,
                num_prefixes=settings.num_prefixes if settings.prefix_tokens else 0,
                num_prefix_units=units,
                num_unique_words=max(0, settings.unique_tokens - question_tokens),
                words=vocabulary.words,
                output_tokens=settings.output_tokens,
            )

        return workload, exact and vocabulary.exact

    def _poisson(self, stage: Stage) -> list[tuple[float, int]]:
        """The same arrivals in both arms."""
        seconds = self.settings.warmup_s + self.settings.duration_s + _TAIL_S
        times = poisson(stage.level, seconds, seed=f"{self.seed}/{stage.round}/{stage.level:g}")
        return [(due, number) for number, due in enumerate(times)]

    def _read(self, path: str) -> Replay:
        settings = self.settings
        replay = read_replay(
            Path(path),
            format_name=settings.trace_format,
            block_size=settings.trace_block_size,
            shrink=settings.shrink,
            default_output_tokens=settings.output_tokens,
        )
        for finding in replay.trace.findings:
            self.note(f"{replay.trace.path.name}: {finding}")
        if replay.has_token_ids and self.proof.mechanism is Mechanism.NONCE:
            raise ConfigError("a trace of token ids leaves no room for words in front: use --arms flag or salt")
        return replay

    def _due(self, replay: Replay) -> Due:
        """The trace's own times and places, without what does not fit the context or comes too late to matter."""
        settings = self.settings
        room = self.max_model_len
        lengths = [prompt.num_tokens + prompt.output_tokens + NONCE_TOKENS for prompt in replay.blocks]
        too_long = {place for place, tokens in enumerate(lengths) if room is not None and tokens > room}
        if len(too_long) == len(lengths) > 0:
            raise ConfigError(f"no prompt of the trace fits the context of {room}: give --shrink")
        if too_long:
            self.note(
                f"{len(too_long)} of {len(lengths)} requests do not fit the context of {room} and are left out: "
                "--shrink makes them smaller"
            )
        until_s = settings.warmup_s + settings.duration_s

        def times(stage: Stage) -> list[tuple[float, int]]:
            schedule = of_trace(
                replay.trace, speed=stage.level, jitter_s=settings.jitter_s, seed=f"{self.seed}/{stage.round}"
            )
            kept = [(due, place) for due, place in schedule if due < until_s + _TAIL_S and place not in too_long]
            if not any(settings.warmup_s <= due < until_s for due, _ in kept):
                raise ConfigError(
                    f"the trace has no request between {settings.warmup_s:g} and {until_s:g} s at speed "
                    f"{stage.level:g}: change --warmup, --duration or --speed"
                )
            return kept

        return times

    async def _replayed(
        self, replay: Replay, due: Due, vocabulary: Vocabulary, ignores_eos: bool
    ) -> tuple[Callable[[Stage], AnyWorkload], bool]:
        """Prompts of a trace: as token ids where the target takes them, else as text."""
        if replay.verbatim:
            return self._verbatim(replay, due, ignores_eos), True
        ids = await self._word_ids(vocabulary)
        if ids is None:
            self.note("the target takes no token ids: prompts of the trace go as text, one word a token")

        def workload(stage: Stage) -> BlockWorkload:
            return BlockWorkload(
                asking=self._asking(stage, ignores_eos),
                prompts=[replay.blocks[place] for _, place in due(stage)],
                block_size=replay.block_size,
                words=vocabulary.words,
                word_ids=ids,
            )

        return workload, vocabulary.exact

    def _verbatim(self, replay: Replay, due: Due, ignores_eos: bool) -> Callable[[Stage], AnyWorkload]:
        def workload(stage: Stage) -> VerbatimWorkload:
            places = [place for _, place in due(stage)]
            return VerbatimWorkload(
                asking=self._asking(stage, ignores_eos),
                is_chat=replay.is_chat,
                prompts=[replay.verbatim[place] for place in places],
                output_tokens=[replay.outputs[place] for place in places],
            )

        return workload

    async def _word_ids(self, vocabulary: Vocabulary) -> list[int] | None:
        """Token ids of the words, if they are known and the target takes ids in place of text."""
        if not vocabulary.exact:
            return None
        ids = await self.tokenizer.text_token_ids("".join(vocabulary.words))
        if ids is None or len(ids) != len(vocabulary.words):
            return None
        return ids if await takes_token_ids(self.addresses["on"], self.model, ids) else None


def _numbered(due: Due) -> Callable[[Stage], list[tuple[float, int]]]:
    """The same with numbers from 0 in place of places in the trace: prompts that are not sent need not travel."""
    return lambda stage: [(offset_s, number) for number, (offset_s, _) in enumerate(due(stage))]

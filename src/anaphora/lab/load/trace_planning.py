"""A load from a trace: which of its requests are sent, when, and as what."""

from pathlib import Path

from anaphora.errors import ConfigError
from anaphora.lab.arms import Mechanism
from anaphora.lab.load.arrivals import of_trace
from anaphora.lab.load.probes import takes_token_ids
from anaphora.lab.load.records import Stage
from anaphora.lab.load.replay import Replay, read_replay
from anaphora.lab.load.situation import TAIL_S, Schedule, Situation, Workloads
from anaphora.lab.load.vocabulary import Vocabulary
from anaphora.lab.load.workloads import NONCE_TOKENS, BlockWorkload, VerbatimWorkload


def read_trace(situation: Situation, path: str) -> Replay:
    """The trace's prompts; what it cannot tell is noted.

    Raises:
        ConfigError: words in front of prompts are what off means, and the prompts are token ids.
        TraceError: it cannot be read or replayed.
    """
    settings = situation.settings
    replay = read_replay(
        Path(path),
        format_name=settings.trace_format,
        block_size=settings.trace_block_size,
        shrink=settings.shrink,
        default_output_tokens=settings.output_tokens,
    )
    for finding in replay.trace.findings:
        situation.note(f"{replay.trace.path.name}: {finding}")
    if replay.has_token_ids and situation.proof.mechanism is Mechanism.NONCE:
        raise ConfigError("a trace of token ids leaves no room for words in front: use --arms flag or salt")
    return replay


def due_of(situation: Situation, replay: Replay) -> Schedule:
    """The trace's own times and places, without what does not fit the context or comes too late to matter.

    Raises:
        ConfigError: nothing of it is left; asked of a stage, nothing within its window.
    """
    settings = situation.settings
    room = situation.max_model_len
    lengths = [prompt.num_tokens + prompt.output_tokens + NONCE_TOKENS for prompt in replay.blocks]
    too_long = {place for place, tokens in enumerate(lengths) if room is not None and tokens > room}
    if len(too_long) == len(lengths) > 0:
        raise ConfigError(f"no prompt of the trace fits the context of {room}: give --shrink")
    if too_long:
        situation.note(
            f"{len(too_long)} of {len(lengths)} requests do not fit the context of {room} and are left out: "
            "--shrink makes them smaller"
        )
    until_s = settings.warmup_s + settings.duration_s

    def times(stage: Stage) -> list[tuple[float, int]]:
        schedule = of_trace(
            replay.trace, speed=stage.level, jitter_s=settings.jitter_s, seed=f"{situation.seed}/{stage.round}"
        )
        kept = [(due, place) for due, place in schedule if due < until_s + TAIL_S and place not in too_long]
        if not any(settings.warmup_s <= due < until_s for due, _ in kept):
            raise ConfigError(
                f"the trace has no request between {settings.warmup_s:g} and {until_s:g} s at speed "
                f"{stage.level:g}: change --warmup, --duration or --speed"
            )
        return kept

    return times


async def replayed(
    situation: Situation, replay: Replay, due: Schedule, vocabulary: Vocabulary, ignores_eos: bool
) -> tuple[Workloads, bool]:
    """Prompts of a trace: as token ids where the target takes them, else as text."""
    if replay.verbatim:
        return _verbatim(situation, replay, due, ignores_eos), True
    ids = await _word_ids(situation, vocabulary)
    if ids is None:
        situation.note("the target takes no token ids: prompts of the trace go as text, one word a token")

    def workload(stage: Stage) -> BlockWorkload:
        return BlockWorkload(
            asking=situation.asking(stage, ignores_eos),
            prompts=[replay.blocks[place] for _, place in due(stage)],
            block_size=replay.block_size,
            words=vocabulary.words,
            word_ids=ids,
        )

    return workload, vocabulary.exact


def numbered(due: Schedule) -> Schedule:
    """The same with numbers from 0 in place of places in the trace: prompts that are not sent need not travel."""
    return lambda stage: [(offset_s, number) for number, (offset_s, _) in enumerate(due(stage))]


def _verbatim(situation: Situation, replay: Replay, due: Schedule, ignores_eos: bool) -> Workloads:
    def workload(stage: Stage) -> VerbatimWorkload:
        places = [place for _, place in due(stage)]
        return VerbatimWorkload(
            asking=situation.asking(stage, ignores_eos),
            is_chat=replay.is_chat,
            prompts=[replay.verbatim[place] for place in places],
            output_tokens=[replay.outputs[place] for place in places],
        )

    return workload


async def _word_ids(situation: Situation, vocabulary: Vocabulary) -> list[int] | None:
    """Token ids of the words, if they are known and the target takes ids in place of text."""
    if not vocabulary.exact:
        return None
    ids = await situation.tokenizer.text_token_ids("".join(vocabulary.words))
    if ids is None or len(ids) != len(vocabulary.words):
        return None
    return ids if await takes_token_ids(situation.addresses["on"], situation.model, ids) else None

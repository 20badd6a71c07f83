"""Does a repeated prompt hit at all, from which length on, how surely, and who tells?"""

from collections.abc import Sequence
from dataclasses import dataclass

from anaphora.errors import TargetError
from anaphora.lab.probe.asking import Asked, Asker
from anaphora.lab.probe.finding import Confidence, Finding, unknown
from anaphora.lab.probe.judging import CountJudge, Judge, time_judge
from anaphora.lab.probe.prompts import WordPrompts

NAME = "reuse"
QUESTION = "Does a prompt hit when it is repeated?"
NUM_PAIRS = 8
LADDER = 4
"""A prompt that never hits is tried again so many times longer."""
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Basis:
    """What the further steps rest on. ``judge``: ``None`` if nobody can tell hits from misses."""

    num_words: int
    judge: Judge | None
    num_always_cached: int = 0
    is_reliable: bool = True
    """Every repeated prompt hit: one that misses was lost."""
    has_single_token_words: bool = False
    """A word more was exactly a token more."""

    @property
    def is_told(self) -> bool:
        """Whether counts tell, so that times need not."""
        return isinstance(self.judge, CountJudge)


async def probe_reuse(asker: Asker, prompts: WordPrompts, lengths: Sequence[int]) -> tuple[Basis, Finding]:
    """Pairs of a new prompt and its repetition, at the first of ``lengths`` (in words) that hits."""
    warmup = await asker.ask(prompts.fresh("warm-up", lengths[0] // 2))
    for num_words in lengths:
        first = await _first_pair(asker, prompts, num_words)
        if first is None:
            break  # longer than the model's context
        if first[1].num_cached_tokens is None:
            return await _by_time(asker, prompts, num_words, first)
        always = first[0].num_cached_tokens or 0
        if first[1].num_cached_tokens > always:
            return await _by_count(asker, prompts, num_words, first, warmup)
    tokens = max(asked.num_prompt_tokens or asked.num_words for asked in asker.log)
    return Basis(lengths[0], None), Finding(
        name=NAME,
        question=QUESTION,
        value="no",
        confidence=Confidence.COUNTED,
        evidence=f"prompts of up to {tokens:,} tokens were repeated at once; the server told 0 cached tokens each time",
    )


async def _by_count(
    asker: Asker, prompts: WordPrompts, num_words: int, first: tuple[Asked, Asked], warmup: Asked
) -> tuple[Basis, Finding]:
    pairs = [first, *[await _pair(asker, prompts, num_words, number) for number in range(1, NUM_PAIRS)]]
    always = max(new.num_cached_tokens or 0 for new, _ in pairs)
    judge = CountJudge(always)
    num_hits = sum(bool(judge.is_hit(repeated)) for _, repeated in pairs)
    new, repeated = first
    basis = Basis(
        num_words,
        judge,
        always,
        is_reliable=num_hits == len(pairs),
        has_single_token_words=_has_single_token_words(warmup, new),
    )
    seen = (
        f"{num_hits} of {len(pairs)} repeated prompts of {new.num_prompt_tokens:,} tokens hit "
        f"({repeated.num_cached_tokens:,} tokens in the first pair)"
    )
    if always:
        seen += f"; {always} tokens hit in new prompts too: the chat template's opening"
    return basis, Finding(
        name=NAME,
        question=QUESTION,
        value="yes" if basis.is_reliable else "at times",
        confidence=Confidence.COUNTED,
        evidence=seen if basis.is_reliable else f"{seen}: several servers behind the address, or stored with delay",
    )


async def _by_time(
    asker: Asker, prompts: WordPrompts, num_words: int, first: tuple[Asked, Asked]
) -> tuple[Basis, Finding]:
    pairs = [first, *[await _pair(asker, prompts, num_words, number) for number in range(1, NUM_PAIRS)]]
    new_ms, repeated_ms = ([asked.e2e_ms for asked in side] for side in zip(*pairs, strict=True))
    judge = time_judge(new_ms, repeated_ms)
    seen = (
        f"the server tells no cached tokens; new prompts of {num_words} words took {min(new_ms):.0f} to "
        f"{max(new_ms):.0f} ms, repeated ones {min(repeated_ms):.0f} to {max(repeated_ms):.0f} ms ({len(pairs)} pairs)"
    )
    basis = Basis(num_words, judge)
    if judge is None:
        return basis, unknown(NAME, QUESTION, f"{seen}: these times are not clearly apart")
    return basis, Finding(
        name=NAME,
        question=QUESTION,
        value="yes",
        confidence=Confidence.LIKELY,
        error_chance=2.0**-NUM_PAIRS,
        evidence=f"{seen}: each repeated one was faster, and one answer is judged wrongly with chance "
        f"{judge.error_chance:.2g} at most",
    )


async def _first_pair(asker: Asker, prompts: WordPrompts, num_words: int) -> tuple[Asked, Asked] | None:
    """The repetition that hit, of up to three: the first may have come to another server, or too early."""
    prompt = prompts.fresh(f"reuse/{num_words}/0", num_words)
    if asker.tokens_left < asker.cost(num_words):
        return None
    new = await asker.try_ask(prompt)
    if new.error is not None:
        if len(asker.log) > 2:
            return None
        raise TargetError(f"the target refused a prompt of {num_words} words: {new.error}")
    for _ in range(_TRIES):
        repeated = await asker.ask(prompt)
        if repeated.num_cached_tokens is None or repeated.num_cached_tokens > (new.num_cached_tokens or 0):
            break
    return new, repeated


async def _pair(asker: Asker, prompts: WordPrompts, num_words: int, number: int) -> tuple[Asked, Asked]:
    prompt = prompts.fresh(f"reuse/{num_words}/{number}", num_words)
    return await asker.ask(prompt), await asker.ask(prompt)


def _has_single_token_words(one: Asked, other: Asked) -> bool:
    if one.num_prompt_tokens is None or other.num_prompt_tokens is None:
        return False
    return other.num_prompt_tokens - one.num_prompt_tokens == other.num_words - one.num_words

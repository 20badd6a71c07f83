"""The shortest shared beginning that is reused at all, found by halving; and whether it grows with the prompt."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from anaphora.errors import TargetError
from anaphora.lab.probe.asking import Asker
from anaphora.lab.probe.block_size import Parting
from anaphora.lab.probe.finding import Bound, Confidence, Finding, unknown
from anaphora.lab.probe.prompts import WordPrompts
from anaphora.lab.probe.reuse import Basis

NAME = "minimum"
QUESTION = "How long must a shared beginning be to be reused?"
_ABSOLUTE, _RELATIVE = 1.4, 2.2
"""In a prompt twice as long a minimum in tokens is passed by 1.4 times as many shared words, a share of the prompt by
2.2 times as many, and not by 1.4."""

_INDISTINCT = 2
"""A word or two more than what hits in every prompt is no minimum."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """``num_missed`` shared words were too few; ``num_hit`` were enough and made ``num_cached_tokens`` hit."""

    num_missed: int
    num_hit: int
    num_cached_tokens: int


async def probe_minimum(
    asker: Asker, prompts: WordPrompts, basis: Basis, partings: Sequence[Parting], *, block_size: int | None
) -> Finding:
    """From the block probe's partings inwards; a minimum of several blocks is looked for in a longer prompt too."""
    found = threshold_of(partings, num_always_cached=basis.num_always_cached)
    if found is None:
        return unknown(NAME, QUESTION, "prompts that share a part only do not hit")
    found = await _halve(asker, prompts, basis, found, max(parting.num_shared for parting in partings))
    if not found.num_cached_tokens:
        return unknown(NAME, QUESTION, "shared beginnings hit at times only")
    is_one_block = block_size is not None and found.num_cached_tokens <= block_size
    grows = None if is_one_block else await _grows(asker, prompts, basis, found)
    return _finding(found, basis, block_size, grows)


def threshold_of(partings: Sequence[Parting], *, num_always_cached: int) -> Threshold | None:
    """What the block probe's partings tell already; ``None`` if none of them hit."""
    hits = [parting for parting in partings if parting.num_cached_tokens > num_always_cached]
    if not hits:
        return None
    least = min(hits, key=lambda parting: parting.num_shared)
    missed = [parting.num_shared for parting in partings if parting.num_shared < least.num_shared]
    return Threshold(max(missed, default=0), least.num_shared, least.num_cached_tokens)


async def _halve(asker: Asker, prompts: WordPrompts, basis: Basis, found: Threshold, longest: int) -> Threshold:
    """From a threshold that the partings suggest to one that is proved. Each place is tried with a prompt of its
    own, so that nothing else shares its beginning; if the first one misses, the partings hit by chance: all up to
    ``longest``, the most shared words that hit, is open again."""
    first = await _try(asker, prompts, basis, found.num_hit)
    if first <= basis.num_always_cached:
        found = Threshold(found.num_hit, longest, 0)
    while found.num_hit - found.num_missed > 1 or not found.num_cached_tokens:
        middle = (found.num_hit + found.num_missed + 1) // 2
        cached = await _try(asker, prompts, basis, middle)
        if cached > basis.num_always_cached:
            found = Threshold(found.num_missed, middle, cached)
        elif middle == found.num_hit:
            break
        else:
            found = replace(found, num_missed=middle)
    return found


async def _try(asker: Asker, prompts: WordPrompts, basis: Basis, num_shared: int) -> int:
    """Tokens that hit when so many words are shared."""
    base = prompts.fresh(f"minimum/base/{num_shared}", basis.num_words)
    await asker.ask(base)
    return (await asker.ask(prompts.parting(base, f"minimum/{num_shared}", num_shared))).num_cached_tokens or 0


async def _grows(asker: Asker, prompts: WordPrompts, basis: Basis, found: Threshold) -> bool | None:
    """Whether the minimum is a share of the prompt; ``None`` if a prompt twice as long is refused, or shows neither."""
    hits = []
    for factor in (_ABSOLUTE, _RELATIVE):
        base = prompts.fresh(f"longer/base/{factor}", 2 * basis.num_words)
        num_shared = min(round(factor * found.num_hit), len(base.words) - 1)
        try:
            await asker.ask(base)
            asked = await asker.ask(prompts.parting(base, f"longer/{factor}", num_shared))
        except TargetError:
            return None
        hits.append((asked.num_cached_tokens or 0) > basis.num_always_cached)
    return {(True, True): False, (False, True): True}.get((hits[0], hits[1]))


def _finding(found: Threshold, basis: Basis, block_size: int | None, grows: bool | None) -> Finding:
    seen = f"{found.num_hit} shared words hit {found.num_cached_tokens:,} tokens, {found.num_missed} words hit none"
    if grows:
        return Finding(
            name=NAME,
            question=QUESTION,
            value=100 * found.num_hit / basis.num_words,
            unit="% of the prompt",
            bound=Bound.ABOUT,
            confidence=Confidence.COUNTED,
            evidence=f"of {basis.num_words} words, {seen}; in a prompt twice as long it takes twice as many",
        )
    if found.num_cached_tokens <= basis.num_always_cached + _INDISTINCT:
        return Finding(
            name=NAME,
            question=QUESTION,
            value=found.num_cached_tokens,
            unit="tokens",
            bound=Bound.AT_MOST,
            confidence=Confidence.COUNTED,
            evidence=f"{seen}; the template's opening alone hits {basis.num_always_cached}",
        )
    blocks = "" if block_size is None else _in_blocks(found.num_cached_tokens, block_size)
    return Finding(
        name=NAME,
        question=QUESTION,
        value=found.num_cached_tokens,
        unit="tokens",
        confidence=Confidence.COUNTED,
        evidence=seen + blocks,
    )


def _in_blocks(num_tokens: int, block_size: int) -> str:
    blocks = num_tokens / block_size
    return f": {blocks:,.0f} block{'s' if blocks != 1 else ''}" if blocks.is_integer() and block_size > 1 else ""

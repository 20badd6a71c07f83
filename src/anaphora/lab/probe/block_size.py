"""In which steps is a shared beginning reused? From prompts that part at many places.

A server that reuses whole blocks of B tokens tells multiples of B, and of what is shared up to B − 1 tokens are lost: B
divides every told count, and is greater than the spread of what was lost. Mostly one number does both.
"""

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from anaphora.lab.probe.asking import Asker
from anaphora.lab.probe.finding import Bound, Confidence, Finding, unknown
from anaphora.lab.probe.prompts import WordPrompts
from anaphora.lab.probe.reuse import Basis

NAME = "block_size"
QUESTION = "In which steps is a shared beginning reused?"
NUM_VARIANTS = 24


@dataclass(frozen=True, slots=True)
class Parting:
    """A prompt that shared ``num_shared`` words with an earlier one, and what came of it."""

    num_shared: int
    num_cached_tokens: int


@dataclass(frozen=True, slots=True)
class BlockSize:
    """``divisors``: every block size that fits; the greatest is a divisor of every count that was told.

    ``num_lost``: of the shared tokens, the least and the greatest number that were not reused. The template's
    opening is not in it, so that the least may be negative.
    """

    divisors: tuple[int, ...]
    num_hits: int
    num_lost: tuple[int, int]
    greatest: int

    @property
    def value(self) -> int | None:
        """The block size if only one fits."""
        return self.divisors[0] if len(self.divisors) == 1 else None


def block_size_of(partings: Sequence[Parting], *, num_always_cached: int = 0) -> BlockSize | None:
    """What the counts prove, for words of one token each; ``None`` if no shared beginning hit.

    What is lost may hold a constant besides, such as a block that is held back: only its spread counts.
    """
    hits = [parting for parting in partings if parting.num_cached_tokens > num_always_cached]
    if not hits:
        return None
    lost = [parting.num_shared - parting.num_cached_tokens for parting in hits]
    common = math.gcd(*(parting.num_cached_tokens for parting in hits))
    spread = max(lost) - min(lost)
    fitting = tuple(size for size in _divisors(common) if size > spread)
    return BlockSize(fitting, len(hits), (min(lost), max(lost)), common)


async def probe_block_size(asker: Asker, prompts: WordPrompts, basis: Basis, partings: list[Parting]) -> Finding:
    """One prompt, then others that part from it, the latest first: a server that keeps one continuation only is judged
    fairly. What came of each is added to ``partings``."""
    base = prompts.fresh("block", basis.num_words)
    await asker.ask(base)
    for num_shared in places(prompts.run_id, basis.num_words):
        asked = await asker.ask(prompts.parting(base, f"block/{num_shared}", num_shared))
        partings.append(Parting(num_shared, asked.num_cached_tokens or 0))
    return _finding(block_size_of(partings, num_always_cached=basis.num_always_cached), basis)


def places(run_id: str, num_words: int, num_places: int = NUM_VARIANTS) -> list[int]:
    """Where prompts part: one place, at random, in every equal part of the prompt; the latest first."""
    chosen = random.Random(f"{run_id}/places")
    borders = [round(num_words * number / num_places) for number in range(num_places + 1)]
    return sorted({chosen.randrange(low, high) for low, high in itertools.pairwise(borders)}, reverse=True)


def _at_most(size: int, evidence: str) -> Finding:
    """``size`` or a divisor of it."""
    return Finding(
        name=NAME,
        question=QUESTION,
        value=size,
        unit="tokens",
        bound=Bound.AT_MOST,
        confidence=Confidence.COUNTED,
        evidence=evidence,
    )


def _finding(found: BlockSize | None, basis: Basis) -> Finding:
    if found is None:
        return unknown(NAME, QUESTION, "prompts hit when they are repeated whole, never when they share a part only")
    seen = f"{found.num_hits} prompts that parted at different places hit in multiples of {found.greatest}"
    low, high = found.num_lost
    if not basis.has_single_token_words:
        return _at_most(
            found.greatest, f"{seen}; its words are not one token each, so that a divisor of it cannot be excluded"
        )
    if not found.divisors:
        return unknown(NAME, QUESTION, f"{seen}, but {high - low} tokens more were lost at one place than at another")
    if found.value is None:
        return _at_most(
            found.greatest, f"{seen}; {' or '.join(str(size) for size in found.divisors)} would all look so"
        )
    why = f"; what was lost of the shared tokens varied by {high - low}, which a smaller block does not allow"
    return Finding(
        name=NAME,
        question=QUESTION,
        value=found.value,
        unit="tokens",
        confidence=Confidence.COUNTED,
        evidence=seen + (why if found.value > 1 else ""),
    )


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]

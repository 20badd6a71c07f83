"""What goes first when room is needed: what was used longest ago, what was stored longest ago, or something else?

A cache is filled, every second one of its oldest prompts is used once more, and new prompts push some out. Which of
the oldest are left then?
"""

from dataclasses import dataclass
from math import comb

from anaphora.lab.probe.asking import Asker, LimitReachedError
from anaphora.lab.probe.filled import LIKE_FIFO, LIKE_LRU, Filled
from anaphora.lab.probe.finding import Confidence, Finding, unknown
from anaphora.lab.probe.prompts import WordPrompts
from anaphora.lab.probe.retention import Kept
from anaphora.lab.probe.reuse import Basis

NAME = "eviction"
QUESTION = "Which prompts go first?"
_MAX_TOUCHED, _MIN_TOUCHED = 4, 3
"""Three of three against none of three comes by chance in one case of twenty."""
_ENOUGH = 32
"""A cache that holds fewer prompts is filled with shorter ones."""


@dataclass(frozen=True, slots=True)
class Survivors:
    """Of the oldest prompts, those that were used once more and those that were not: how many are left of how many."""

    num_touched_left: int
    num_others_left: int
    num_each: int
    num_new: int

    @property
    def chance(self) -> float:
        """How likely all that were used again, and only they, are left if that makes no difference."""
        return 1 / comb(2 * self.num_each, self.num_each)


def order_of(survivors: Survivors) -> str | None:
    """In words; ``None`` if the numbers fit no simple order."""
    touched, others, each = survivors.num_touched_left, survivors.num_others_left, survivors.num_each
    if touched == each and others == 0:
        return LIKE_LRU
    if touched == others == 0:
        return LIKE_FIFO
    if touched == others == each:
        return "not the oldest first"
    return None


async def probe_eviction(
    asker: Asker, prompts: WordPrompts, basis: Basis, filled: Filled | None, kept: Kept, *, least_words: int
) -> Finding:
    """Needs a capacity that was reached. ``least_words``: shorter prompts might not be reused."""
    if filled is None or basis.judge is None or filled.lost_after_s is None:
        return unknown(NAME, QUESTION, "the cache was not filled, so nothing had to go")
    if filled.may_be_age(kept):
        return unknown(NAME, QUESTION, "prompts may be lost for their age before the cache is full")
    num_words, num_held, num_missing = _size(asker, basis, filled, least_words)
    num_each = min(_MAX_TOUCHED, num_held // 4)
    if num_each < _MIN_TOUCHED:
        return unknown(NAME, QUESTION, f"the cache holds {num_held} prompts: too few to see an order")
    num_new = 2 * num_each + num_missing
    if num_new > num_held - num_each:
        return unknown(NAME, QUESTION, "how much the cache holds is not known closely enough to fill it up")
    needed = (num_held + num_new + 3 * num_each) * asker.cost(num_words)
    if asker.tokens_left < needed:
        return unknown(NAME, QUESTION, f"--max-tokens leaves {asker.tokens_left:,} tokens, it takes {needed:,}")
    try:
        survivors = await _survivors(asker, prompts, basis, num_words, num_held, num_each, num_new)
    except LimitReachedError:
        return unknown(NAME, QUESTION, "--max-tokens ended it")
    if survivors is None:
        return unknown(NAME, QUESTION, "some of the oldest prompts were lost before any had to go")
    return _finding(survivors, basis)


def _size(asker: Asker, basis: Basis, filled: Filled, least_words: int) -> tuple[int, int, int]:
    """Words of a prompt, how many prompts of that length surely are held, and how many more may be."""
    bounds = filled.bounds()
    assert bounds.less_than is not None
    if filled.counts_prompts:
        tokens, num_words = filled.num_stored, filled.num_words  # as capacity counts them: the opening is everybody's
    elif not basis.is_told or filled.num_held >= _ENOUGH:
        tokens, num_words = filled.num_tokens, filled.num_words
    else:
        num_words = max(least_words, int(bounds.at_least / _ENOUGH) - asker.cost(0))
        tokens = asker.cost(num_words)
    num_held = bounds.at_least // tokens
    return num_words, num_held, -(-bounds.less_than // tokens) - num_held


async def _survivors(
    asker: Asker,
    prompts: WordPrompts,
    basis: Basis,
    num_words: int,
    num_held: int,
    num_each: int,
    num_new: int,
) -> Survivors | None:
    """``None``: a prompt was lost before it was used once more, so that the filling was too much."""
    assert basis.judge is not None
    stored = [prompts.fresh(f"eviction/{number}", num_words) for number in range(num_held)]
    for prompt in stored:
        await asker.ask(prompt)
    oldest = stored[: 2 * num_each]
    touched, others = oldest[1::2], oldest[::2]
    if not all([basis.judge.is_hit(await asker.ask(prompt)) for prompt in touched]):
        return None
    for number in range(num_new):  # so many that whatever goes by age alone loses all of the oldest
        await asker.ask(prompts.fresh(f"eviction/new/{number}", num_words))
    # Those that should be left are asked for first: asking for what is lost stores it, and something else must go.
    left = [[bool(basis.judge.is_hit(await asker.ask(prompt))) for prompt in group] for group in (touched, others)]
    return Survivors(sum(left[0]), sum(left[1]), num_each, num_new)


def _finding(survivors: Survivors, basis: Basis) -> Finding:
    each = survivors.num_each
    seen = (
        f"of the {2 * each} oldest prompts, {each} were used once more: {survivors.num_touched_left} of these were "
        f"left when {survivors.num_new} new ones had come, and {survivors.num_others_left} of the others"
    )
    order = order_of(survivors)
    if order is None:
        return unknown(NAME, QUESTION, f"{seen}: no simple order")
    assert basis.judge is not None
    return Finding(
        name=NAME,
        question=QUESTION,
        value=order,
        confidence=Confidence.LIKELY,
        error_chance=min(1.0, survivors.chance + 2 * each * basis.judge.error_chance),
        evidence=seen,
    )

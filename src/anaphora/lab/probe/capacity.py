"""How many tokens of prompts may come before one is lost?

That is the reach of reuse, for prompts that were asked for once or twice. It is the cache's size where whatever is
oldest goes first. A policy that learns who comes back, or that keeps what was used twice, lets others go sooner or
later: then the reach is less than the size, or more.
"""

from collections.abc import Mapping

from anaphora.lab.probe.distances import Bounds
from anaphora.lab.probe.filled import LIKE_FIFO, LIKE_LRU, Filled
from anaphora.lab.probe.finding import Bound, Confidence, Finding, unknown
from anaphora.lab.probe.retention import Kept
from anaphora.lab.probe.reuse import Basis

NAME = "capacity"
QUESTION = "How much may come before a prompt is lost?"
_AS_SIZE: Mapping[str | None, str] = {
    LIKE_LRU: "; reckoned as with LRU, and the cache's size if what was used longest ago always goes first",
    LIKE_FIFO: "; reckoned as with FIFO, and the cache's size if what was stored first always goes first",
    None: "; in which order prompts go is not known: the cache's size may be less, or more",
}


def capacity_finding(filled: Filled | None, basis: Basis, kept: Kept, order: str | None) -> Finding:
    """What a filling says once it is known how long prompts are kept, and in which order they go."""
    if basis.judge is None or not basis.is_reliable:
        return unknown(NAME, QUESTION, "repeated prompts do not hit surely enough to notice that one is lost")
    if filled is None:
        return unknown(NAME, QUESTION, "what may be sent (--max-tokens) is not enough for a few prompts")
    if filled.counts_prompts:
        return _in_prompts(filled)
    bounds = filled.bounds(order)
    is_lost = filled.lost_after_s is not None and not filled.may_be_age(kept)
    error = min(1.0, filled.num_askings * basis.judge.error_chance)
    return Finding(
        name=NAME,
        question=QUESTION,
        value=bounds.middle if is_lost else bounds.at_least,
        unit="tokens",
        bound=Bound.ABOUT if is_lost else Bound.AT_LEAST,
        low=bounds.at_least,
        high=bounds.less_than if is_lost else None,
        confidence=Confidence.LIKELY if is_lost or not basis.is_told else Confidence.COUNTED,
        error_chance=error or None,
        evidence=_evidence(filled, bounds, kept, order) + ("" if basis.is_told else "; judged by times"),
    )


def _evidence(filled: Filled, bounds: Bounds, kept: Kept, order: str | None) -> str:
    sent = f"{filled.num_sent} prompts of {filled.num_tokens:,} tokens were sent"
    if bounds.less_than is None or filled.lost_after_s is None:
        return f"{sent}, and the early ones that were asked for again were still there; --max-tokens ended it"
    reach = f"one was found after {bounds.at_least:,} tokens, its own with them, and one was lost by"
    seen = f"{sent}; {reach} {bounds.less_than:,}"
    if filled.may_be_age(kept):
        return f"{seen}, but by then, after {filled.lost_after_s:.0f} s, prompts may be lost for their age"
    if not bounds.is_by_age:
        return f"{sent}; some were lost before others that had come earlier, so that this is rough"
    seen += _AS_SIZE[order]
    if filled.lost_after_s > kept.for_s:
        seen += f"; one was lost after {filled.lost_after_s:.0f} s, and that prompts last so long was not tried"
    return seen


def _in_prompts(filled: Filled) -> Finding:
    assert filled.longer is not None
    return Finding(
        name=NAME,
        question=QUESTION,
        value=filled.num_held,
        unit="prompts",
        bound=Bound.ABOUT,
        confidence=Confidence.LIKELY,  # a policy that keeps what came back may look so at two lengths by chance
        evidence=f"{filled.longer.num_held} prompts of {filled.longer.num_tokens:,} tokens were held, and "
        f"{filled.num_held} of {filled.num_tokens:,}: as if their number counted, not their length",
    )

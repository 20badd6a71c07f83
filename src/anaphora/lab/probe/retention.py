"""How long does a prompt stay cached when nobody asks for it?

Prompts are stored together, and each is asked for again once, after a pause of its own: asking would keep it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from anaphora.lab.probe.asking import Asked, Asker, Pause
from anaphora.lab.probe.finding import Bound, Confidence, Finding, unknown
from anaphora.lab.probe.prompts import WordPrompt, WordPrompts
from anaphora.lab.probe.reuse import Basis

NAME = "retention"
QUESTION = "How long does an unused prompt stay cached?"
_NUM_BETWEEN = 3
"""Pauses of the second round, between the longest that hit and the shortest that missed."""
_ROUNDS = 2
After = list[tuple[float, bool]]
"""After so many seconds: a hit, or not."""


def growing_pauses(max_wait_s: float) -> list[float]:
    """One second and its doublings, and at last the whole time."""
    pauses = [2.0**power for power in range(64) if 2.0**power < max_wait_s]
    return [*pauses, max_wait_s] if max_wait_s > 0 else []


def max_requests(max_wait_s: float) -> int:
    """How many requests are sent at most."""
    pauses = len(growing_pauses(max_wait_s))
    return 2 * (pauses + 1 + 3 + _NUM_BETWEEN + 1) if pauses else 0


@dataclass(frozen=True, slots=True)
class Kept:
    """An unused prompt was still there after ``for_s`` seconds, and not after ``lost_after_s`` (``None``: that was not
    seen)."""

    for_s: float = 0.0
    lost_after_s: float | None = None


async def probe_retention(
    asker: Asker, prompts: WordPrompts, basis: Basis, *, max_wait_s: float, pause: Pause
) -> tuple[Kept, Finding]:
    """In a second round the time is found more closely, if a first showed that prompts are lost, and time is left."""
    if basis.judge is None or not basis.is_reliable:
        return Kept(), unknown(NAME, QUESTION, "repeated prompts do not hit surely enough to notice that one is lost")
    if max_wait_s <= 0:
        return Kept(), unknown(NAME, QUESTION, "not asked: --max-wait is 0")
    seen: After = []
    pauses, left = growing_pauses(max_wait_s), max_wait_s
    for number in range(_ROUNDS):
        found = await _round(asker, prompts, basis, pauses, f"retention/{number}", pause)
        if found is None:
            return Kept(), unknown(NAME, QUESTION, f"the cache does not hold {len(pauses) + 1} prompts at a time")
        seen += found
        left -= pauses[len(found) - 1]
        low, high = bracket_of(seen)
        if high is None or low >= high:
            break
        pauses = [p for p in _between(low, high) if p <= left]
        if not pauses:
            break
    low, high = bracket_of(seen)
    return Kept(low, high), _finding(seen, basis)


def bracket_of(seen: After) -> tuple[float, float | None]:
    """The longest pause that hit and the shortest that missed; ``None``: none missed."""
    return max((after for after, hit in seen if hit), default=0.0), min(
        (after for after, hit in seen if not hit), default=None
    )


async def _round(
    asker: Asker, prompts: WordPrompts, basis: Basis, pauses: Sequence[float], name: str, pause: Pause
) -> After | None:
    """Store one prompt a pause, and ask for each when it is due. First of all for a spare one, the oldest: if that
    is lost at once, for want of room, only two pauses are tried, and ``None`` means that even those are too many."""
    assert basis.judge is not None
    stored: list[tuple[float, WordPrompt, Asked]] = []
    for wanted in (0.0, *pauses):
        prompt = prompts.fresh(f"{name}/{wanted:g}", basis.num_words)
        stored.append((wanted, prompt, await asker.ask(prompt)))
    (_, spare, _), *waiting = stored
    if not basis.judge.is_hit(await asker.ask(spare)):
        return None if len(pauses) <= 2 else await _round(asker, prompts, basis, pauses[-2:], f"{name}/few", pause)
    found: After = []
    for wanted, prompt, asked in waiting:
        end_ns = asked.sent_ns + round(asked.e2e_ms * 1e6)
        await pause(max(0.0, wanted - (asker.clock() - end_ns) / 1e9))
        after = (asker.clock() - end_ns) / 1e9
        hit = bool(basis.judge.is_hit(await asker.ask(prompt)))
        found.append((after, hit))
        if not hit:
            break  # the longer pauses would miss too: what is left of the time is worth more between
    return found


def _between(low: float, high: float) -> list[float]:
    """Pauses at equal ratios between the two."""
    low = max(low, high / 8)
    return [low * (high / low) ** (number / (_NUM_BETWEEN + 1)) for number in range(1, _NUM_BETWEEN + 1)]


def _finding(seen: After, basis: Basis) -> Finding:
    low, high = bracket_of(seen)
    assert basis.judge is not None
    error = None if basis.is_told else min(1.0, len(seen) * basis.judge.error_chance)
    told = "hit" if basis.is_told else "hit, by their times,"
    hits = sorted(after for after, hit in seen if hit)
    evidence = f"{len(hits)} prompts {told} after pauses of up to {low:.0f} s" if hits else "none hit"
    if high is not None:
        evidence += f"; one missed after {high:.1f} s"
    if high is not None and low >= high:
        return unknown(NAME, QUESTION, f"{evidence}: longer and shorter pauses contradict each other")
    return Finding(
        name=NAME,
        question=QUESTION,
        value=low if high is None else (low + high) / 2,
        unit="seconds",
        bound=Bound.AT_LEAST if high is None else Bound.ABOUT,
        low=low,
        high=high,
        confidence=Confidence.COUNTED if basis.is_told else Confidence.LIKELY,
        error_chance=error,
        evidence=evidence,
    )

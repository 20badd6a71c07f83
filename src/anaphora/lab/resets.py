"""Off by forgetting: the server's whole prefix cache is reset before a request that must miss, and filled again before
one that may hit.

It empties the cache for everybody who uses the server, so it is never chosen unasked.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from anaphora.errors import TargetError
from anaphora.lab.arms import ArmsProof, Mechanism, Trial
from anaphora.lab.counted_reply import counted_chat
from anaphora.lab.refills import refill
from anaphora.lab.targets.base import ChatRequest, Target

_TRIES = 10
_PAUSE_S = 0.05
"""A server may hold the blocks of an answer for a moment after its last byte, and refuses a reset meanwhile."""


async def reset(target: Target) -> str | None:
    """Have the cache forgotten; returns why it was not, or ``None`` if the server does not say so."""
    refusal = None
    for number in range(_TRIES):
        if number:
            await asyncio.sleep(_PAUSE_S)
        refusal = await target.reset_prefix_cache()
        if refusal is None:
            return None
    return refusal


async def prove_reset(target: Target, filler: ChatRequest) -> ArmsProof:
    """A prompt that hits must miss after a reset, whatever the server answers to it. ``filler`` is used nowhere else.

    Raises:
        TargetError: the reset is refused, does nothing, or cannot be seen; one sentence that says which.
    """
    asked = ChatRequest(messages=filler.messages, max_tokens=1)
    await _cached(target, asked)
    hit = await _cached(target, asked)
    if hit is None:
        raise _cannot("the target does not tell its cached tokens, so it cannot be proved")
    if hit == 0:
        raise _cannot("a repeated prompt did not hit: prefix caching seems to be off")
    refusal = await reset(target)
    if refusal is not None:
        raise _cannot(refusal)
    left = await _cached(target, asked)
    if left:
        raise _cannot(f"the server did not say no, yet {left} tokens of the same prompt hit after it")
    return ArmsProof(Mechanism.RESET, f"a prompt that hit ({hit} tokens) missed after a reset (0 tokens)", (asked,))


def with_resets(trials: Sequence[Trial]) -> list[Trial]:
    """The trials in their order, with a reset before each that must miss and, before an on-request that follows one, a
    reset and the on-request before it once more, which fills the cache again and is in no statistic."""
    order: list[Trial] = []
    latest: dict[tuple[str, int], Trial] = {}
    held: tuple[str, int] | None = None
    for trial in trials:
        place = (trial.experiment, trial.group)
        must_miss = trial.arm == "off" or place not in latest
        if must_miss:
            trial = replace(trial, reset_before=True)
        elif held != place:
            order.append(refill(latest[place], label="fills the cache again", reset_before=True))
        order.append(trial)
        held = None if trial.arm == "off" else place
        if trial.arm == "on":
            latest[place] = trial
    return order


async def _cached(target: Target, request: ChatRequest) -> int | None:
    told = await counted_chat(target, request)
    if told.reply.answer.error is not None:
        raise TargetError(f"the target refused a first request: {told.reply.answer.error}")
    return told.num_cached_tokens


def _cannot(why: str) -> TargetError:
    return TargetError(f"--arms reset cannot be used: {why}; use another --arms")

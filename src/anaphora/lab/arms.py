"""On and off: how a request is made to miss, how that is proved, and in which order the arms take turns."""

import dataclasses
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from anaphora.errors import TargetError
from anaphora.lab.counted_reply import counted_chat
from anaphora.lab.salts import salt_of
from anaphora.lab.targets.base import ChatRequest, Target
from anaphora.traces.records import Arm, Phase

HEAD_TOKENS = 64
"""What may stand before the nonce in a rendered prompt (the template's opening) and hit all the same."""


class Mechanism(StrEnum):
    """How the off arm misses."""

    FLAG = "flag"
    """Two servers, one with its prefix cache switched off. Arms run in blocks A B B A."""
    RESTART = "restart"
    """One server at a time, stopped and started again with its prefix cache on or off. Blocks as by flag."""
    SALT = "salt"
    """One server; every off request has a ``cache_salt`` of its own. Arms take turns request by request."""
    NONCE = "nonce"
    """One server; every off request has other words in front of its prompt. Arms take turns request by request."""
    RESET = "reset"
    """One server, its whole cache reset before every off request, and filled again before the next on-request. Arms
    take turns request by request."""

    @property
    def is_by_flag(self) -> bool:
        """Whether off requests go to a server without a prefix cache."""
        return self in (Mechanism.FLAG, Mechanism.RESTART)

    @property
    def off_means(self) -> str:
        """What "off" is in this run, for people."""
        return {
            Mechanism.FLAG: "a second server, started with its prefix cache switched off",
            Mechanism.RESTART: "the server stopped and started again with its prefix cache switched off",
            Mechanism.SALT: "a cache_salt of its own for every request, so that nothing can hit",
            Mechanism.NONCE: "other words in front of every prompt, so that nothing after them can hit",
            Mechanism.RESET: "a reset of the whole prefix cache before every request",
        }[self]

    def proof_in_words(self, seen: str) -> list[str]:
        """What was ``seen`` beforehand as sentences: that it works or, of words in front, why nothing better does."""
        if not seen:
            return []
        return [f"A salt cannot do it here: {seen}." if self is Mechanism.NONCE else f"Proved beforehand: {seen}."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One request to be sent, and its place in the experiment (see :class:`anaphora.traces.records.RequestRecord`)."""

    experiment: str
    arm: Arm
    phase: Phase
    group: int
    index: int
    label: str
    request: ChatRequest
    reset_before: bool = False
    """The whole prefix cache is to be forgotten before it."""


Round = tuple[Trial, ...]
"""Trials that belong together: a pair of arms as a rule, or the one request that fills the cache."""


def interleaved(rounds: Iterable[Round], rng: random.Random) -> list[Trial]:
    """Round after round, the arms of each in random order: whatever drifts, drifts for both."""
    return [trial for pair in rounds for trial in rng.sample(pair, len(pair))]


def in_blocks(rounds: Sequence[Round]) -> list[Trial]:
    """On, off, off, on: the first half of every experiment's rounds, then the second half in the other order of arms.

    A steady drift then adds the same to both arms. Each arm keeps its own order.
    """
    half = {}
    for experiment_group in dict.fromkeys((pair[0].experiment, pair[0].group) for pair in rounds):
        members = [pair for pair in rounds if (pair[0].experiment, pair[0].group) == experiment_group]
        half.update({id(pair): number >= (len(members) + 1) // 2 for number, pair in enumerate(members)})
    order: list[Trial] = []
    for late, arm in ((False, "on"), (False, "off"), (True, "off"), (True, "on")):
        order += [trial for pair in rounds if half[id(pair)] is late for trial in pair if trial.arm == arm]
    return order


@dataclass(frozen=True, slots=True)
class ArmsProof:
    """Which mechanism was found to work, and what was seen."""

    mechanism: Mechanism
    seen: str
    asked: tuple[ChatRequest, ...] = ()
    """What was sent to find out; its blocks may be in the cache since."""


async def prove_salt(target: Target, filler: ChatRequest) -> ArmsProof:
    """Find out whether the target honours ``cache_salt``: a prompt that hits with one salt must miss with another.

    ``filler`` is a prompt of some hundred tokens that is used nowhere else. Where the target refuses the field,
    ignores it, or does not show its hits, the answer is :attr:`Mechanism.NONCE`.
    """
    asked = tuple(
        ChatRequest(messages=filler.messages, max_tokens=1, cache_salt=salt_of(filler.cache_salt, name))
        for name in ("a", "a", "b")
    )
    first, again, other = [await counted_chat(target, request) for request in asked]
    refusal = first.reply.answer.error
    if refusal is not None:
        bare = ChatRequest(messages=filler.messages, max_tokens=1)
        plain = await target.chat(bare)
        if plain.answer.error is not None:
            raise TargetError(f"the target refused a first request: {plain.answer.error}")
        return ArmsProof(Mechanism.NONCE, f"cache_salt was refused ({refusal})", (bare,))
    hit, miss = again.num_cached_tokens, other.num_cached_tokens
    if hit is None or miss is None:
        seen = "the target does not tell its cached tokens, so a salt cannot be proved"
    elif hit == 0:
        seen = "a repeated prompt did not hit: prefix caching seems to be off"
    elif miss > 0:
        seen = f"cache_salt is ignored: {miss} tokens hit under another salt"
        asked = tuple(dataclasses.replace(request, cache_salt=None) for request in asked)
    else:
        proved = f"a prompt that hit ({hit} tokens) missed under another salt (0 tokens)"
        return ArmsProof(Mechanism.SALT, proved, asked)
    return ArmsProof(Mechanism.NONCE, seen, asked)

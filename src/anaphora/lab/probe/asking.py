"""Asking within limits, and what each answer tells of reuse."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from anaphora.errors import TargetError
from anaphora.lab.clock import Clock
from anaphora.lab.counters import difference
from anaphora.lab.probe.prompts import WordPrompt
from anaphora.lab.settled_counters import settled_counters
from anaphora.lab.targets.base import Reply, Target
from anaphora.lab.usage import read_usage
from anaphora.traces.records import CounterReading

TEMPLATE_TOKENS = 40
"""What a chat template and the question add to a prompt's words, before an answer has told."""
Pause = Callable[[float], Awaitable[None]]


class LimitReachedError(Exception):
    """One more request would exceed what the probe may send. The step ends with what it knows."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request and what its answer told. ``None``: it does not tell.

    ``num_cached_tokens`` is the answer's own ``usage`` or, where that is silent, what the server's counters grew by.
    ``e2e_ms`` is the time of the whole answer, which has one token: it holds the prefill and little else.
    """

    step: str
    name: str
    num_words: int
    num_shared_words: int | None
    num_prompt_tokens: int | None
    num_cached_tokens: int | None
    e2e_ms: float
    sent_ns: int
    error: str | None = None


@dataclass(slots=True)
class Asker:
    """Sends prompts one after another. ``max_tokens``: how many prompt tokens may be sent in all."""

    target: Target
    max_tokens: int
    on_asked: Callable[[Asked], None] = lambda _: None
    clock: Clock = time.monotonic_ns
    step: str = ""
    num_tokens_sent: int = 0
    num_foreign_tokens: int = 0
    """Tokens that the server's counters grew by beyond our own: other clients ask it too."""
    log: list[Asked] = field(default_factory=list)
    _overhead: int = TEMPLATE_TOKENS
    _uses_counters: bool | None = None
    """Whether counters must tell what ``usage`` hides; ``None``: not known before the first answer."""
    _has_told: bool = False
    """An answer told a count before. Some servers then leave it out where it is 0."""

    async def ask(self, prompt: WordPrompt, *, salt: str | None = None, target: Target | None = None) -> Asked:
        """Send one prompt. Raises :class:`LimitReachedError` before it would be too much, :class:`TargetError` when it
        is refused. ``target``: another client of the same server, say with another key."""
        asked = await self.try_ask(prompt, salt=salt, target=target)
        if asked.error is not None:
            raise TargetError(f"the target refused a prompt of {len(prompt.words)} words: {asked.error}")
        return asked

    async def try_ask(self, prompt: WordPrompt, *, salt: str | None = None, target: Target | None = None) -> Asked:
        """The same, and a refusal is an answer like others."""
        if self.tokens_left < self.cost(len(prompt.words)):
            raise LimitReachedError
        server = target or self.target
        before = await self._counters_before(server)
        reply = await server.chat(prompt.request(salt=salt))
        cached, counted = await self._cached(server, reply, before)
        tokens = read_usage(reply.answer.usage).num_prompt_tokens
        asked = Asked(
            step=self.step,
            name=prompt.name,
            num_words=len(prompt.words),
            num_shared_words=prompt.num_shared,
            num_prompt_tokens=tokens,
            num_cached_tokens=cached,
            e2e_ms=(reply.end_ns - reply.sent_ns) / 1e6,
            sent_ns=reply.sent_ns,
            error=reply.answer.error,
        )
        self._take(asked, counted)
        return asked

    @property
    def tokens_left(self) -> int:
        """How many more prompt tokens may be sent."""
        return self.max_tokens - self.num_tokens_sent

    def cost(self, num_words: int) -> int:
        """Prompt tokens of a prompt of so many words, by what earlier answers told."""
        return num_words + self._overhead

    def _take(self, asked: Asked, counted: CounterReading | None) -> None:
        self.log.append(asked)
        if asked.num_prompt_tokens is not None:
            self._overhead = max(0, asked.num_prompt_tokens - asked.num_words)
        self.num_tokens_sent += asked.num_prompt_tokens or self.cost(asked.num_words)
        if counted is not None and counted.unit == "tokens" and asked.num_prompt_tokens is not None:
            self.num_foreign_tokens += max(0, round(counted.queried) - asked.num_prompt_tokens)
        self.on_asked(asked)

    async def _counters_before(self, server: Target) -> CounterReading | None:
        return None if self._uses_counters is False else await server.read_counters()

    async def _cached(
        self, server: Target, reply: Reply, before: CounterReading | None
    ) -> tuple[int | None, CounterReading | None]:
        usage = read_usage(reply.answer.usage)
        if reply.answer.error is not None:
            return None, None
        self._has_told = self._has_told or usage.num_cached_tokens is not None
        if self._uses_counters is None:
            self._uses_counters = usage.num_cached_tokens is None and before is not None
        if not self._uses_counters or before is None:
            return (0 if usage.num_cached_tokens is None and self._has_told else usage.num_cached_tokens), None
        counted = difference(before, (await settled_counters(server, before))[0])
        if usage.num_cached_tokens is not None:
            return usage.num_cached_tokens, counted
        is_ours = counted is not None and counted.unit == "tokens" and counted.queried == usage.num_prompt_tokens
        return (round(counted.cached) if is_ours and counted is not None else None), counted

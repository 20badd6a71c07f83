"""What the checks share: the target, and what earlier ones found out about it."""

import secrets
from dataclasses import dataclass, field
from typing import Any

from anaphora.errors import TargetError
from anaphora.lab.arms import Mechanism
from anaphora.lab.counted_reply import counted_chat
from anaphora.lab.counters import MetricsText
from anaphora.lab.dialects import OTHER, Dialect
from anaphora.lab.targets.base import ChatRequest, Reply
from anaphora.lab.targets.openai import OpenAITarget
from anaphora.lab.usage import read_usage
from anaphora.lab.workloads.prompts import PromptFactory
from anaphora.lab.workloads.texts import texts_of
from anaphora.traces.records import CounterReading

_TEXTS = texts_of("en")


@dataclass(frozen=True, slots=True)
class Sample:
    """One request of the doctor's. Cached tokens by witness; ``None``: it does not say."""

    num_prompt_tokens: int | None
    usage_cached: int | None
    counted: CounterReading | None
    ttft_ms: float | None

    @property
    def num_cached_tokens(self) -> int | None:
        """By the answer itself where it tells, else by the server's counters."""
        if self.usage_cached is not None:
            return self.usage_cached
        return None if self.counted is None else round(self.counted.cached)


@dataclass(slots=True)
class Visit:
    """A visit to one server. ``words``: makes its prompts its own, so that nothing of them was cached before."""

    target: OpenAITarget
    wanted_model: str | None
    wait_s: float
    words: str = field(default_factory=lambda: secrets.token_hex(8))
    kind: Dialect = OTHER
    metrics: MetricsText | None = None
    stream: Reply | None = None

    def prompt(self, name: str, num_units: int, *, max_tokens: int = 1, salt: str | None = None) -> ChatRequest:
        """A chat whose system prompt has about so many words and shares no beginning with one of another name."""
        edition = PromptFactory(self.words, Mechanism.SALT, _TEXTS).edition(name)
        system = _TEXTS.system_prompt(edition, num_units)
        messages = ({"role": "system", "content": system}, {"role": "user", "content": _TEXTS.question})
        return ChatRequest(messages=messages, max_tokens=max_tokens, cache_salt=salt)

    async def sample(self, request: ChatRequest) -> Sample:
        """Send a request and see what every witness says of it."""
        told = await counted_chat(self.target, request)
        reply, counted = told.reply, told.counted
        if reply.answer.error is not None:
            raise TargetError(f"a request was refused: {reply.answer.error}")
        usage = read_usage(reply.answer.usage)
        first_token_ns = reply.answer.first_token_ns
        ttft_ms = None if first_token_ns is None else (first_token_ns - reply.sent_ns) / 1e6
        return Sample(usage.num_prompt_tokens, usage.num_cached_tokens, counted, ttft_ms)

    def cache_setting(self, name: str) -> Any:
        """What the server publishes of its cache's settings, as text; ``None`` if it does not."""
        return None if self.metrics is None else self.metrics.cache_config().get(name)

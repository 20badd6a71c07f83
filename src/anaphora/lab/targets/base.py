"""The seam between experiments and servers: an experiment sends chat requests and reads counters, and knows no
socket."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from anaphora.errors import TargetError
from anaphora.lab.answers import Answer
from anaphora.traces.records import CounterReading


class KeyRefusedError(TargetError):
    """The server wants a key, or another one (HTTP 401 or 403)."""


Message = Mapping[str, Any]
"""``role`` and ``content``; ``tool_calls`` and the like as OpenAI has them."""
Tool = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One chat completion to ask for: greedy, streamed. ``cache_salt`` and ``tools`` go along only if given."""

    messages: tuple[Message, ...]
    max_tokens: int
    cache_salt: str | None = None
    tools: tuple[Tool, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer and the stamps around it; readings of the client's clock in nanoseconds."""

    sent_ns: int
    first_byte_ns: int | None
    end_ns: int
    connection_reused: bool
    answer: Answer


class PromptTokenizer(Protocol):
    """Tokenises as the target does. ``None``: cannot be known here."""

    async def count_text(self, text: str) -> int | None: ...
    async def text_token_ids(self, text: str) -> list[int] | None: ...
    async def chat_token_ids(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int] | None: ...


class Target(PromptTokenizer, Protocol):
    """A server under measurement."""

    async def chat(self, request: ChatRequest) -> Reply:
        """Send one request. A refusal is an ``answer.error``; :class:`TargetError` means that no answer came."""
        ...

    async def read_counters(self) -> CounterReading | None:
        """The cache counters now; ``None`` if the server publishes none."""
        ...

    async def reset_prefix_cache(self) -> str | None:
        """Have all cached prefixes forgotten; returns why it was not done, or ``None`` if the server does not say so.

        What it says is no proof: :func:`anaphora.lab.arms.prove_reset` asks for that.
        """
        ...

    async def cache_settings(self) -> Mapping[str, Any]:
        """What the server publishes of its cache: ``block_size``, ``num_gpu_blocks``, …; empty if nothing."""
        ...

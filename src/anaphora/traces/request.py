"""One request of a trace: when it came, what it asked, and how much was answered. What is not known is ``None``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anaphora.traces.findings import Finding
from anaphora.types import Namespace

if TYPE_CHECKING:
    from array import array

DEFAULT_NAMESPACE = Namespace("")


class HashedPrompt(NamedTuple):
    """A prompt of which only the identities of its blocks are known, the last of them perhaps a partial block.

    An id stands for the whole prefix up to and including its block: equal ids in equal places are equal prefixes.
    ``block_ids`` are the trace's own ids, renumbered from 0 in the order of their appearance;
    there are ``ceil(num_tokens / block_size)``.
    """

    block_ids: "array[int]"
    num_tokens: int


class TokenPrompt(NamedTuple):
    """A prompt as token ids (unsigned 32-bit)."""

    token_ids: "array[int]"


class TextPrompt(NamedTuple):
    """A prompt as text, still to be tokenised with special tokens."""

    text: str


class ChatPrompt(NamedTuple):
    """Messages and tools as an OpenAI request has them, still to be rendered by a chat template and tokenised."""

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] | None
    template_kwargs: Mapping[str, Any]


Prompt = HashedPrompt | TokenPrompt | TextPrompt | ChatPrompt


class TraceRequest(NamedTuple):
    """One request, in the order of arrival once it is in a :class:`Trace`."""

    line: int
    """Where it stands in the file, from 1."""
    arrival_s: float | None
    """Seconds on the trace's own clock."""
    prompt: Prompt
    num_output_tokens: int | None = None
    output_token_ids: Sequence[int] | None = None
    session: str | None = None
    """Conversation, for people and sampling; it decides nothing."""
    namespace: Namespace = DEFAULT_NAMESPACE
    """Requests of different namespaces never share blocks."""
    lookup: bool = True
    """Whether the request let the cache be read; what it computed was stored all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedBy:
    """The server that wrote a request log, and what became of the prompt tokens of its requests, by ledger class."""

    num_blocks: int
    block_size: int
    eviction_policy: str
    max_num_seqs: int
    max_num_batched_tokens: int
    target_prefill_tokens: int
    """Nobody was let into a step that computed so many prompt tokens; 0: anybody was."""
    num_requests: int
    num_tokens_by_reason: Mapping[str, int]

    @property
    def num_prompt_tokens(self) -> int:
        """Of all its requests."""
        return sum(self.num_tokens_by_reason.values())

    @property
    def num_cached_tokens(self) -> int:
        """Prompt tokens taken from the cache, whatever the tier."""
        return sum(count for reason, count in self.num_tokens_by_reason.items() if reason.startswith("reused_"))


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace as read: its requests in the order of arrival, and everything that was strange about the file."""

    path: Path
    format: str
    block_size: int | None
    """Tokens a block id stands for, or ``None`` where prompts are tokens or text."""
    num_rows: int
    """Rows that could be parsed, kept or not."""
    requests: tuple[TraceRequest, ...]
    findings: tuple[Finding, ...]
    served_by: ServedBy | None = None
    """Where the trace is the request log of a server."""

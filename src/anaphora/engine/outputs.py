"""What comes back for a request: increments of tokens and text, and at the end the full account."""

from dataclasses import dataclass
from typing import Literal

from anaphora.kvcache.ledger import Ledger
from anaphora.types import RequestId

FinishReason = Literal["stop", "length", "abort"]


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token with its log-probability (natural logarithm, after penalties and bias, before temperature) and rank."""

    token_id: int
    logprob: float
    rank: int
    """1 for the likeliest token."""


@dataclass(frozen=True, slots=True)
class PositionLogprobs:
    """The token at one position, and the likeliest alternatives there, best first."""

    token: TokenLogprob
    top: tuple[TokenLogprob, ...]


@dataclass(frozen=True, slots=True)
class EngineUsage:
    """Token counts of one request so far. ``ledger`` is the operator's view (see ``Ledger.for_tenant``)."""

    num_prompt_tokens: int
    num_cached_tokens: int
    num_output_tokens: int
    num_recomputed_tokens: int
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class RequestTimes:
    """Monotonic times of one request in seconds (``time.monotonic``); ``None`` until it happened."""

    arrived_s: float
    scheduled_s: float | None = None
    first_token_s: float | None = None
    finished_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOutput:
    """What is new since the previous output of the same request. The last one has a ``finish_reason``."""

    request_id: RequestId
    text: str = ""
    """New text. Text that may still become part of a stop string, or half a character, is held back."""
    token_ids: tuple[int, ...] = ()
    token_times_s: tuple[float, ...] = ()
    """When each of ``token_ids`` was sampled (``time.monotonic``): outputs may be joined, their times are not."""
    logprobs: tuple[PositionLogprobs, ...] | None = None
    """One entry per token of ``token_ids`` if asked for."""
    prompt_logprobs: tuple[PositionLogprobs | None, ...] | None = None
    """Once, in the first output: one entry per prompt token, the first one ``None``."""
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None
    """The stop token id or stop string that ended the generation; ``None`` for the end-of-sequence token."""
    usage: EngineUsage
    times: RequestTimes

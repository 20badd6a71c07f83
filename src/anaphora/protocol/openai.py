"""OpenAI's request schemas, with vLLM's extensions and this project's own.

Types are strict: ``"5"`` is no integer and ``1`` no boolean. ``null`` always means "not given". Bounds of sampling
settings are not repeated here: the engine's ``SamplingParams`` has them, and names the same fields.
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainValidator

from anaphora.errors import RequestError
from anaphora.protocol.messages import Message
from anaphora.protocol.refusals import HARMLESS_IN_CHAT, HARMLESS_IN_COMPLETIONS, refuse_unserved

MAX_STOP_STRINGS = 64
MAX_LISTED_TOKENS = 1024
"""Stop ids, or tokens with a bias: each of them costs time at every generated token."""
MAX_MESSAGES = 2**16
MAX_DETOKENIZED = 2**20
"""Longer lists than any context has room for: while they are read and written, all other requests wait."""
MAX_SALT_CHARS = 128
MAX_TOP_LOGPROBS = 20

TEMPLATE_OWN_NAMES = frozenset({"add_generation_prompt", "bos_token", "eos_token", "messages", "tools"})
"""What the server itself hands to the chat template; ``chat_template_kwargs`` may not replace it."""


def _read_stop(value: Any) -> list[str] | None:
    stops = [value] if isinstance(value, str) else value
    if stops is None:
        return None
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        raise ValueError("must be a string or a list of strings")
    if len(stops) > MAX_STOP_STRINGS:
        raise ValueError(f"must have at most {MAX_STOP_STRINGS} strings, got {len(stops)}")
    return stops


def _read_logit_bias(value: Any) -> dict[int, float] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not all(type(bias) in (int, float) for bias in value.values()):
        raise ValueError("must map token ids to numbers")
    if len(value) > MAX_LISTED_TOKENS:
        raise ValueError(f"must have at most {MAX_LISTED_TOKENS} tokens, got {len(value)}")
    if not all(token_id.isascii() and token_id.isdecimal() for token_id in value):
        raise ValueError("must have token ids as keys")
    try:
        return {int(token_id): float(bias) for token_id, bias in value.items()}
    except (ValueError, OverflowError):  # thousands of digits, or more than a float holds
        raise ValueError("must map token ids to numbers: one of them is too large") from None


def _read_prompts(value: Any) -> list[str] | list[list[int]]:
    """One prompt or many, text or token ids: always a list of prompts afterwards."""
    if isinstance(value, str) and value:
        return [value]
    if isinstance(value, list) and value:
        if _are_token_ids(value):
            return [value]
        if all(isinstance(item, str) and item for item in value):
            return value
        if all(isinstance(item, list) and _are_token_ids(item) for item in value):
            return value
    raise ValueError("must be a string, a list of strings, a list of token ids or a list of such lists, none empty")


def _are_token_ids(value: list[Any]) -> bool:
    return set(map(type, value)) == {int}  # exactly: a boolean is no token id


class StreamOptions(BaseModel):
    """``include_usage``: a last chunk with the usage and without choices."""

    model_config = ConfigDict(strict=True, frozen=True)

    include_usage: bool | None = None


class GenerationFields(BaseModel):
    """What chat and text completions have in common."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True, allow_inf_nan=False)

    model: str | None = None
    n: int | None = Field(None, ge=1)
    max_tokens: int | None = Field(None, ge=0)
    min_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    stop: Annotated[list[str] | None, PlainValidator(_read_stop)] = None
    stop_token_ids: list[int] | None = Field(None, max_length=MAX_LISTED_TOKENS)
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    logit_bias: Annotated[dict[int, float] | None, PlainValidator(_read_logit_bias)] = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    cache_salt: str | None = Field(None, min_length=1, max_length=MAX_SALT_CHARS)
    """Requests share cached blocks with those of the same API key and salt only."""
    cache_prompt: bool | None = None
    """False: the prefix cache is not read for this request (llama.cpp's name)."""
    include_ledger: bool | None = None
    """True: the usage tells why each prompt token was or was not cached."""

    @property
    def num_samples(self) -> int:
        """Continuations per prompt."""
        return self.n or 1

    @property
    def includes_usage_chunk(self) -> bool:
        """Whether a stream ends with a chunk that has the usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    def check(self) -> None:
        """Refuse what is wrong between fields, and what is not served.

        Raises:
            RequestError: with ``param`` naming the field.
        """
        if self.stream_options is not None and not self.stream:
            raise RequestError("stream_options is for streams only: set stream to true", param="stream_options")
        if self.include_ledger and self.stream and not self.includes_usage_chunk:
            raise RequestError(
                "include_ledger puts the ledger into the usage: in a stream set stream_options.include_usage to true",
                param="include_ledger",
            )


class ChatCompletionRequest(GenerationFields):
    """Body of ``POST /v1/chat/completions``."""

    messages: list[Message] = Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)
    tools: list[dict[str, Any]] | None = None
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=MAX_TOP_LOGPROBS)
    chat_template_kwargs: dict[str, Any] | None = None
    """Variables for the checkpoint's template, such as ``enable_thinking``."""

    @property
    def wanted_tokens(self) -> int | None:
        """Output limit; ``None``: all the room left. ``max_completion_tokens`` is the newer name and goes first."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    def check(self) -> None:
        super().check()
        refuse_unserved(self.model_extra or {}, HARMLESS_IN_CHAT)
        if self.top_logprobs is not None and not self.logprobs:
            raise RequestError("top_logprobs needs logprobs to be true", param="top_logprobs")
        for name in sorted(TEMPLATE_OWN_NAMES & (self.chat_template_kwargs or {}).keys()):
            raise RequestError(f"chat_template_kwargs may not set {name}", param="chat_template_kwargs")


class CompletionRequest(GenerationFields):
    """Body of ``POST /v1/completions``."""

    prompt: Annotated[list[str] | list[list[int]], PlainValidator(_read_prompts)]
    echo: bool | None = None
    logprobs: int | None = Field(None, ge=0, le=MAX_TOP_LOGPROBS)
    best_of: int | None = None
    add_special_tokens: bool | None = None

    @property
    def scores_prompt(self) -> bool:
        """Whether the log-probabilities of the prompt's own tokens are asked for."""
        return bool(self.echo) and self.logprobs is not None

    def check(self) -> None:
        super().check()
        refuse_unserved(self.model_extra or {}, HARMLESS_IN_COMPLETIONS)
        if self.best_of is not None and self.best_of != self.num_samples:
            raise RequestError("best_of must equal n: more samples are not drawn and thrown away", param="best_of")
        if self.max_tokens == 0 and not self.scores_prompt:
            raise RequestError("max_tokens must be at least 1 (0 is for echo with logprobs)", param="max_tokens")


class TokenizeRequest(BaseModel):
    """Body of ``POST /tokenize``: ``prompt`` or ``messages``."""

    model_config = ConfigDict(strict=True, frozen=True)

    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = Field(None, min_length=1, max_length=MAX_MESSAGES, fail_fast=True)
    tools: list[dict[str, Any]] | None = None
    add_special_tokens: bool = True
    add_generation_prompt: bool = True
    return_token_strs: bool | None = None

    def check(self) -> None:
        """Refuse both or neither of ``prompt`` and ``messages``.

        Raises:
            RequestError: with ``param`` naming the field.
        """
        if (self.prompt is None) == (self.messages is None):
            raise RequestError("give either prompt or messages", param="prompt")


class DetokenizeRequest(BaseModel):
    """Body of ``POST /detokenize``."""

    model_config = ConfigDict(strict=True, frozen=True)

    model: str | None = None
    tokens: list[int] = Field(max_length=MAX_DETOKENIZED)

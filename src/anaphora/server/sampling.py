"""Request fields become the engine's ``SamplingParams``."""

from typing import Any

from anaphora.engine import SamplingParams
from anaphora.protocol.openai import ChatCompletionRequest, CompletionRequest, GenerationFields

DEFAULT_COMPLETION_TOKENS = 16
"""OpenAI's default for text completions; chat completions may fill the context."""

_SAME_NAME = (
    "min_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "include_stop_str_in_output",
    "ignore_eos",
    "skip_special_tokens",
)


def chat_params(request: ChatCompletionRequest, *, room: int, sample: int) -> SamplingParams:
    """Settings of the ``sample``-th continuation of a chat with ``room`` tokens left in the context.

    Raises:
        RequestError: a value is out of its range.
    """
    wanted = request.wanted_tokens
    return SamplingParams(
        **_common(request, sample),
        max_tokens=max(room, 1) if wanted is None else wanted,
        logprobs=request.top_logprobs or 0 if request.logprobs else None,
    )


def completion_params(request: CompletionRequest, *, room: int, sample: int) -> SamplingParams:
    """Settings of the ``sample``-th continuation of a prompt with ``room`` tokens left in the context.

    Raises:
        RequestError: a value is out of its range.
    """
    default = min(DEFAULT_COMPLETION_TOKENS, max(room, 1))
    return SamplingParams(
        **_common(request, sample),
        max_tokens=default if request.max_tokens is None else request.max_tokens,
        logprobs=request.logprobs,
        prompt_logprobs=request.logprobs if request.scores_prompt else None,
    )


def _common(request: GenerationFields, sample: int) -> dict[str, Any]:
    fields = {name: value for name in _SAME_NAME if (value := getattr(request, name)) is not None}
    if request.seed is not None:
        fields["seed"] = request.seed + sample  # samples of one prompt must differ from each other
    return {
        **fields,
        "stop": tuple(request.stop or ()),
        "stop_token_ids": tuple(request.stop_token_ids or ()),
        "logit_bias": tuple((request.logit_bias or {}).items()),
    }

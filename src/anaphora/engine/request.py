"""What the engine is asked: a prompt of token ids and how to continue it."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from anaphora.engine.sampling_params import SamplingParams
from anaphora.errors import PromptTooLongError, RequestError
from anaphora.types import Namespace, RequestId

DEFAULT_NAMESPACE = Namespace("")


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """One prompt and one continuation of it."""

    request_id: RequestId
    """Must differ from that of every request in the engine."""
    prompt_token_ids: Sequence[int]
    params: SamplingParams = field(default_factory=SamplingParams)
    namespace: Namespace = DEFAULT_NAMESPACE
    """Whom cached blocks belong to; requests of different namespaces share none."""
    lookup: bool = True
    """False: the prefix cache is not read for this request. What it computes is cached all the same."""


def check_request(request: GenerationRequest, *, max_model_len: int, vocab_size: int) -> None:
    """Refuse what can never run.

    Raises:
        PromptTooLongError: prompt and output together are more than ``max_model_len`` tokens.
        RequestError: the prompt is empty, or a token id is not one of the model's.
    """
    prompt, params = request.prompt_token_ids, request.params
    if not prompt:
        raise RequestError("prompt must have at least one token", param="prompt")
    if len(prompt) + params.max_tokens > max_model_len:
        raise PromptTooLongError(
            f"prompt and output may have {max_model_len} tokens together, but {len(prompt) + params.max_tokens} were "
            f"asked for: {len(prompt)} in the prompt, {params.max_tokens} of output; shorten it or lower max_tokens",
            param="max_tokens" if len(prompt) < max_model_len else "prompt",
            code="context_length_exceeded",
        )
    _check_ids("prompt", _extremes(prompt), vocab_size)
    _check_ids("logit_bias", [token_id for token_id, _ in params.logit_bias], vocab_size)
    _check_ids("stop_token_ids", params.stop_token_ids, vocab_size)


def compact(request: GenerationRequest) -> GenerationRequest:
    """The same request, its prompt as an array: then it is cheap to check, to copy and to cut into blocks.

    A prompt with something in it that is no token id stays as it is; :func:`check_request` says what is wrong.
    """
    prompt = request.prompt_token_ids
    if isinstance(prompt, array) and prompt.typecode == "I":
        return request
    try:
        return replace(request, prompt_token_ids=array("I", prompt))
    except (OverflowError, TypeError):
        return request


def _extremes(token_ids: Sequence[int]) -> tuple[int, ...]:
    """The smallest and the largest; of unsigned numbers the largest alone."""
    if isinstance(token_ids, array) and token_ids.typecode == "I":
        return (int(np.frombuffer(token_ids, dtype=np.uintc).max()),)
    return min(token_ids), max(token_ids)


def _check_ids(name: str, token_ids: Sequence[int], vocab_size: int) -> None:
    for token_id in token_ids:
        if not 0 <= token_id < vocab_size:
            raise RequestError(
                f"{name}: token id {token_id} is not in the vocabulary of {vocab_size} tokens", param=name
            )

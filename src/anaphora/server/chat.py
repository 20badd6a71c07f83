"""``POST /v1/chat/completions``: messages through the checkpoint's template to a prompt, and answers in chat form."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anaphora.engine import RequestOutput
from anaphora.errors import RequestError
from anaphora.protocol.answers import Usage
from anaphora.protocol.messages import Message
from anaphora.protocol.openai import ChatCompletionRequest
from anaphora.server.generation import Choice, finish_reason_of
from anaphora.server.logprobs import chat_logprobs
from anaphora.tokenizer.tokenizer import Tokenizer
from anaphora.types import Namespace

if TYPE_CHECKING:
    from array import array


def chat_prompt(request: ChatCompletionRequest, tokenizer: Tokenizer, *, owner: Namespace) -> "array[int]":
    """Token ids of the rendered chat, ready for the assistant's turn. ``owner`` and errors as in :func:`render`."""
    return render(tokenizer, owner, request.messages, request.tools, **(request.chat_template_kwargs or {}))


def render(
    tokenizer: Tokenizer,
    owner: Namespace,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]] | None,
    /,
    *,
    add_generation_prompt: bool = True,
    **template_variables: Any,
) -> "array[int]":
    """Messages through the checkpoint's chat template to token ids, which are remembered for ``owner`` alone.

    Raises:
        ChatTemplateError: the template refused the messages.
        RequestError: the model has no chat template.
    """
    if not tokenizer.has_chat_template:
        raise RequestError("this model has no chat template: use /v1/completions", param="messages")
    text = tokenizer.apply_chat_template(
        [message.for_template() for message in messages],
        tools=tools or None,
        add_generation_prompt=add_generation_prompt,
        **template_variables,
    )
    return tokenizer.encode_rendered(text, owner)


class ChatFormat:
    """Chat answers and chunks. A choice's first chunk carries its role along with its first text."""

    def __init__(self, request: ChatCompletionRequest, answer_id: str, model: str, tokenizer: Tokenizer) -> None:
        self._head = {"id": answer_id, "created": int(time.time()), "model": model}
        self._usage_in_chunks = {"usage": None} if request.includes_usage_chunk else {}
        self._wants_logprobs = bool(request.logprobs)
        self._tokenizer = tokenizer
        self._started: set[int] = set()

    def answer(self, choices: Sequence[Choice], usage: Usage) -> dict[str, Any]:
        """See :class:`AnswerFormat`."""
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [self._choice(index, choice) for index, choice in enumerate(choices)],
            "usage": usage,
        }

    def chunk(self, index: int, output: RequestOutput) -> dict[str, Any] | None:
        """See :class:`AnswerFormat`. Half a character and what may become a stop string are held back."""
        if not (output.text or output.logprobs or output.finish_reason):
            return None
        delta: dict[str, Any] = {"content": output.text} if output.text or index not in self._started else {}
        if index not in self._started:
            self._started.add(index)
            delta = {"role": "assistant", **delta}
        logprobs = chat_logprobs(output.logprobs, self._tokenizer) if output.logprobs else None
        choice = {
            "index": index,
            "delta": delta,
            "logprobs": logprobs,
            "finish_reason": finish_reason_of(output),
        }
        if output.finish_reason:
            choice["stop_reason"] = output.stop_reason
        return {**self._chunk_head(), "choices": [choice], **self._usage_in_chunks}

    def usage_chunk(self, usage: Usage) -> dict[str, Any]:
        """See :class:`AnswerFormat`."""
        return {**self._chunk_head(), "choices": [], "usage": usage}

    def _chunk_head(self) -> dict[str, Any]:
        return {**self._head, "object": "chat.completion.chunk"}

    def _choice(self, index: int, choice: Choice) -> dict[str, Any]:
        return {
            "index": index,
            "message": {"role": "assistant", "content": choice.text, "refusal": None},
            "logprobs": chat_logprobs(choice.logprobs, self._tokenizer) if self._wants_logprobs else None,
            "finish_reason": choice.finish_reason,
            "stop_reason": choice.stop_reason,
        }

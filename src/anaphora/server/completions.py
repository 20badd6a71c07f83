"""``POST /v1/completions``: prompts as text or token ids, answers as text, the prompt echoed and scored if asked."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from anaphora.engine import PositionLogprobs, RequestOutput
from anaphora.protocol.answers import CompletionLogprobs, Usage
from anaphora.protocol.openai import CompletionRequest
from anaphora.server.generation import Choice, finish_reason_of
from anaphora.server.logprobs import completion_logprobs
from anaphora.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as the engine gets it, and as ``echo`` gives it back (empty unless asked for)."""

    token_ids: Sequence[int]
    echoed: str


def completion_prompts(request: CompletionRequest, tokenizer: Tokenizer) -> list[Prompt]:
    """The prompts of a request, in order."""
    prompts = []
    for given in request.prompt:
        if isinstance(given, str):
            token_ids = tokenizer.encode(given, add_special_tokens=request.add_special_tokens is not False)
            prompts.append(Prompt(token_ids, given if request.echo else ""))
        else:
            prompts.append(Prompt(given, tokenizer.decode(given, skip_special_tokens=False) if request.echo else ""))
    return prompts


class CompletionFormat:
    """Text completion answers and chunks. An echoed prompt goes before its continuation, in a choice's first chunk."""

    def __init__(
        self, request: CompletionRequest, prompts: Sequence[Prompt], answer_id: str, model: str, tokenizer: Tokenizer
    ) -> None:
        self._head = {"id": answer_id, "object": "text_completion", "created": int(time.time()), "model": model}
        self._usage_in_chunks = {"usage": None} if request.includes_usage_chunk else {}
        self._wants_logprobs = request.logprobs is not None
        self._prompts = [prompt for prompt in prompts for _ in range(request.num_samples)]
        self._tokenizer = tokenizer
        self._offsets: dict[int, int] = {}

    def answer(self, choices: Sequence[Choice], usage: Usage) -> dict[str, Any]:
        """See :class:`AnswerFormat`."""
        return {
            **self._head,
            "choices": [self._choice(index, choice) for index, choice in enumerate(choices)],
            "usage": usage,
        }

    def chunk(self, index: int, output: RequestOutput) -> dict[str, Any] | None:
        """See :class:`AnswerFormat`."""
        is_first = index not in self._offsets
        text = (self._prompts[index].echoed if is_first else "") + output.text
        if not (text or output.logprobs or output.finish_reason):
            return None
        offset, logprobs = self._offsets.get(index, 0), None
        if self._wants_logprobs:
            token_ids, positions = output.token_ids, output.logprobs or ()
            logprobs = self._logprobs(index, token_ids, positions, output.prompt_logprobs, offset)
        self._offsets[index] = offset + sum(map(len, logprobs["tokens"] if logprobs else ()))
        choice = {
            "index": index,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": finish_reason_of(output),
        }
        if output.finish_reason:
            choice["stop_reason"] = output.stop_reason
        return {**self._head, "choices": [choice], **self._usage_in_chunks}

    def usage_chunk(self, usage: Usage) -> dict[str, Any]:
        """See :class:`AnswerFormat`."""
        return {**self._head, "choices": [], "usage": usage}

    def _choice(self, index: int, choice: Choice) -> dict[str, Any]:
        logprobs = None
        if self._wants_logprobs:
            logprobs = self._logprobs(index, choice.token_ids, choice.logprobs, choice.prompt_logprobs, 0)
        return {
            "index": index,
            "text": self._prompts[index].echoed + choice.text,
            "logprobs": logprobs,
            "finish_reason": choice.finish_reason,
            "stop_reason": choice.stop_reason,
        }

    def _logprobs(
        self,
        index: int,
        token_ids: Sequence[int],
        positions: Sequence[PositionLogprobs],
        prompt_positions: Sequence[PositionLogprobs | None] | None,
        offset: int,
    ) -> CompletionLogprobs:
        """Of the generated tokens, with the prompt's before them where they were asked for and have come."""
        if prompt_positions is None:
            return completion_logprobs(token_ids, positions, self._tokenizer, offset=offset)
        all_ids = [*self._prompts[index].token_ids, *token_ids]
        return completion_logprobs(all_ids, [*prompt_positions, *positions], self._tokenizer, offset=offset)

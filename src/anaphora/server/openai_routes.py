"""The ``/v1`` routes: schema, prompt, job, answer."""

import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from anaphora.engine import GenerationRequest, SamplingParams
from anaphora.errors import PromptTooLongError, RequestError
from anaphora.protocol.openai import ChatCompletionRequest, CompletionRequest, GenerationFields
from anaphora.server.answering import Answerer
from anaphora.server.api import Api
from anaphora.server.chat import ChatFormat, chat_prompt
from anaphora.server.completions import CompletionFormat, completion_prompts
from anaphora.server.generation import Job
from anaphora.server.json_response import json_response
from anaphora.server.sampling import chat_params, completion_params
from anaphora.types import Namespace, RequestId


class OpenAIRoutes:
    """OpenAI's endpoints."""

    def __init__(self, api: Api, answerer: Answerer) -> None:
        self._api = api
        self._answerer = answerer
        self._started_s = int(time.time())

    async def chat_completions(self, http: Request) -> Response:
        """``POST /v1/chat/completions``."""
        asked, num_bytes = await self._api.read(ChatCompletionRequest, http)
        asked.check()
        model, answer_id = self._api.model(asked.model), _new_id("chatcmpl")
        self._require_few(asked.num_samples)
        tenant = self._api.access.tenant(http.headers, asked.cache_salt)
        prompt = await self._api.convert(partial(chat_prompt, owner=tenant), asked, num_bytes)
        self._require_room(len(prompt))
        job = self._job(tenant, asked, answer_id, [prompt], partial(chat_params, asked))
        form = ChatFormat(asked, answer_id, model, self._api.backend.tokenizer)
        return await self._answerer.answer(http, asked, job, form)

    async def completions(self, http: Request) -> Response:
        """``POST /v1/completions``."""
        asked, num_bytes = await self._api.read(CompletionRequest, http)
        asked.check()
        model, answer_id = self._api.model(asked.model), _new_id("cmpl")
        self._require_few(len(asked.prompt) * asked.num_samples)
        prompts = await self._api.convert(completion_prompts, asked, num_bytes)
        token_ids = [prompt.token_ids for prompt in prompts]
        tenant = self._api.access.tenant(http.headers, asked.cache_salt)
        job = self._job(tenant, asked, answer_id, token_ids, partial(completion_params, asked))
        form = CompletionFormat(asked, prompts, answer_id, model, self._api.backend.tokenizer)
        return await self._answerer.answer(http, asked, job, form)

    async def models(self, http: Request) -> Response:
        """``GET /v1/models``."""
        self._api.access.tenant(http.headers)
        cards = [self._card(name) for name in self._api.settings.served_model_names]
        return json_response({"object": "list", "data": cards})

    async def model(self, http: Request) -> Response:
        """``GET /v1/models/{model}``."""
        self._api.access.tenant(http.headers)
        return json_response(self._card(self._api.model(http.path_params["model"])))

    def _require_room(self, num_tokens: int) -> None:
        """A chat that fills the context alone is refused here: the engine would speak of a prompt, not of messages."""
        most = self._api.backend.max_model_len
        if num_tokens >= most:
            raise PromptTooLongError(
                f"the messages have {num_tokens} tokens, but prompt and output together may have {most}: shorten them",
                param="messages",
                code="context_length_exceeded",
            )

    def _require_few(self, num_choices: int) -> None:
        """Before any text is tokenised: a million small prompts would keep a core busy for nothing.

        More than even an idle engine holds is refused too: to try it again later, as a 503 says, would never help.
        """
        most = min(self._api.settings.max_choices, self._api.backend.config.max_requests)
        if num_choices > most:
            raise RequestError(f"n times the number of prompts may be at most {most}, got {num_choices}", param="n")

    def _job(
        self,
        tenant: Namespace,
        asked: GenerationFields,
        answer_id: str,
        prompts: Sequence[Sequence[int]],
        params_of: Callable[..., SamplingParams],
    ) -> Job:
        """The engine requests: for each prompt ``n`` samples. ``params_of`` takes ``room`` (tokens) and ``sample``."""
        num_choices = len(prompts) * asked.num_samples
        requests = [
            GenerationRequest(
                request_id=RequestId(answer_id if num_choices == 1 else f"{answer_id}-{index}-{sample}"),
                prompt_token_ids=prompt,
                params=params_of(room=self._api.backend.max_model_len - len(prompt), sample=sample),
                namespace=tenant,
                lookup=asked.cache_prompt is not False,
            )
            for index, prompt in enumerate(prompts)
            for sample in range(asked.num_samples)
        ]
        return Job(answer_id, tuple(requests), asked.num_samples)

    def _card(self, name: str) -> dict[str, Any]:
        return {
            "id": name,
            "object": "model",
            "created": self._started_s,
            "owned_by": "anaphora",
            "max_model_len": self._api.backend.max_model_len,
        }


def _new_id(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex}"

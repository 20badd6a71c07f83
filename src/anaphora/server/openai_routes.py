"""The ``/v1`` routes and the tokenizer's: key, body, schema, prompt, job, answer."""

import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from anaphora.engine import GenerationRequest, SamplingParams
from anaphora.errors import RequestError, UnknownModelError
from anaphora.protocol.openai import (
    ChatCompletionRequest,
    CompletionRequest,
    DetokenizeRequest,
    GenerationFields,
    TokenizeRequest,
)
from anaphora.protocol.parsing import parse
from anaphora.server.access import Access
from anaphora.server.answering import Answerer
from anaphora.server.backend import Backend
from anaphora.server.chat import ChatFormat, chat_prompt, render
from anaphora.server.completions import CompletionFormat, completion_prompts
from anaphora.server.connection import read_body
from anaphora.server.generation import Job
from anaphora.server.json_response import json_response
from anaphora.server.sampling import chat_params, completion_params
from anaphora.server.settings import ServerSettings
from anaphora.types import RequestId

M = TypeVar("M", bound=BaseModel)


class OpenAIRoutes:
    """Endpoints that clients with an API key may call."""

    def __init__(self, backend: Backend, settings: ServerSettings, access: Access, answerer: Answerer) -> None:
        self._backend = backend
        self._settings = settings
        self._access = access
        self._answerer = answerer
        self._started_s = int(time.time())

    async def chat_completions(self, http: Request) -> Response:
        """``POST /v1/chat/completions``."""
        asked = await self._read(ChatCompletionRequest, http)
        asked.check()
        model, answer_id = self._model(asked.model), _new_id("chatcmpl")
        prompt = chat_prompt(asked, self._backend.tokenizer)
        job = self._job(http, asked, answer_id, [prompt], partial(chat_params, asked))
        form = ChatFormat(asked, answer_id, model, self._backend.tokenizer)
        return await self._answerer.answer(http, asked, job, form)

    async def completions(self, http: Request) -> Response:
        """``POST /v1/completions``."""
        asked = await self._read(CompletionRequest, http)
        asked.check()
        model, answer_id = self._model(asked.model), _new_id("cmpl")
        prompts = completion_prompts(asked, self._backend.tokenizer)
        token_ids = [prompt.token_ids for prompt in prompts]
        job = self._job(http, asked, answer_id, token_ids, partial(completion_params, asked))
        form = CompletionFormat(asked, prompts, answer_id, model, self._backend.tokenizer)
        return await self._answerer.answer(http, asked, job, form)

    async def models(self, http: Request) -> Response:
        """``GET /v1/models``."""
        self._access.tenant(http.headers)
        return json_response(
            {"object": "list", "data": [self._card(name) for name in self._settings.served_model_names]}
        )

    async def model(self, http: Request) -> Response:
        """``GET /v1/models/{model}``."""
        self._access.tenant(http.headers)
        return json_response(self._card(self._model(http.path_params["model"])))

    async def tokenize(self, http: Request) -> Response:
        """``POST /tokenize``: the ids that a completion's ``prompt`` or a chat's ``messages`` would have."""
        asked = await self._read(TokenizeRequest, http)
        asked.check()
        self._model(asked.model)
        token_ids = self._tokenized(asked)
        texts = [self._backend.tokenizer.token_text(i) for i in token_ids] if asked.return_token_strs else None
        return json_response(
            {
                "count": len(token_ids),
                "max_model_len": self._backend.max_model_len,
                "tokens": token_ids,
                "token_strs": texts,
            }
        )

    async def detokenize(self, http: Request) -> Response:
        """``POST /detokenize``: the text of token ids, special tokens included."""
        asked = await self._read(DetokenizeRequest, http)
        self._model(asked.model)
        if not all(0 <= token_id < self._backend.tokenizer.vocab_size for token_id in asked.tokens):
            raise RequestError("tokens must be ids of the vocabulary", param="tokens")
        return json_response({"prompt": self._backend.tokenizer.decode(asked.tokens, skip_special_tokens=False)})

    async def _read(self, schema: type[M], http: Request) -> M:
        """The checked body; the key is checked before any of it is read."""
        self._access.tenant(http.headers)
        return parse(schema, await read_body(http, self._settings.max_body_bytes))

    def _model(self, name: str | None) -> str:
        """The model name to answer with: the one asked for, or the first if none was.

        Raises:
            UnknownModelError: no such model here.
        """
        names = self._settings.served_model_names
        if name is None:
            return names[0]
        if name not in names:
            raise UnknownModelError(
                f"the model {name!r} is not served here, only {', '.join(names)}", param="model", code="model_not_found"
            )
        return name

    def _job(
        self,
        http: Request,
        asked: GenerationFields,
        answer_id: str,
        prompts: Sequence[Sequence[int]],
        params_of: Callable[..., SamplingParams],
    ) -> Job:
        """The engine requests: for each prompt ``n`` samples. ``params_of`` takes ``room`` (tokens) and ``sample``."""
        num_choices = len(prompts) * asked.num_samples
        if num_choices > self._settings.max_choices:
            raise RequestError(
                f"n times the number of prompts may be at most {self._settings.max_choices}, got {num_choices}",
                param="n",
            )
        requests = [
            GenerationRequest(
                request_id=RequestId(answer_id if num_choices == 1 else f"{answer_id}-{index}-{sample}"),
                prompt_token_ids=prompt,
                params=params_of(room=self._backend.max_model_len - len(prompt), sample=sample),
                namespace=self._access.tenant(http.headers, asked.cache_salt),
                lookup=asked.cache_prompt is not False,
            )
            for index, prompt in enumerate(prompts)
            for sample in range(asked.num_samples)
        ]
        return Job(answer_id, tuple(requests), asked.num_samples)

    def _tokenized(self, asked: TokenizeRequest) -> list[int]:
        tokenizer = self._backend.tokenizer
        if asked.messages is None:
            return tokenizer.encode(asked.prompt or "", add_special_tokens=asked.add_special_tokens)
        return render(tokenizer, asked.messages, asked.tools, add_generation_prompt=asked.add_generation_prompt)

    def _card(self, name: str) -> dict[str, Any]:
        return {
            "id": name,
            "object": "model",
            "created": self._started_s,
            "owned_by": "anaphora",
            "max_model_len": self._backend.max_model_len,
        }


def _new_id(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex}"

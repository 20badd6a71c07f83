"""``/tokenize`` and ``/detokenize``: what a request's text is to the model."""

from collections.abc import Sequence
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from anaphora.errors import RequestError
from anaphora.protocol.openai import DetokenizeRequest, TokenizeRequest
from anaphora.server.api import Api
from anaphora.server.chat import render
from anaphora.server.json_response import json_response
from anaphora.tokenizer.tokenizer import Tokenizer
from anaphora.types import Namespace


class TokenizerRoutes:
    """Endpoints that need no engine."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def tokenize(self, http: Request) -> Response:
        """``POST /tokenize``: the ids that a completion's ``prompt`` or a chat's ``messages`` would have."""
        asked, num_bytes = await self._api.read(TokenizeRequest, http)
        asked.check()
        self._api.model(asked.model)
        tenant = self._api.access.tenant(http.headers)
        answer = partial(_tokenized, owner=tenant, max_model_len=self._api.backend.max_model_len)
        return await self._api.convert(answer, asked, num_bytes)

    async def detokenize(self, http: Request) -> Response:
        """``POST /detokenize``: the text of token ids, special tokens included."""
        asked, num_bytes = await self._api.read(DetokenizeRequest, http)
        self._api.model(asked.model)
        return await self._api.convert(_detokenized, asked, num_bytes)


def _tokenized(asked: TokenizeRequest, tokenizer: Tokenizer, *, owner: Namespace, max_model_len: int) -> Response:
    token_ids = _token_ids(asked, tokenizer, owner)
    return json_response(
        {
            "count": len(token_ids),
            "max_model_len": max_model_len,
            "tokens": token_ids,
            "token_strs": _token_texts(token_ids, tokenizer) if asked.return_token_strs else None,
        }
    )


def _token_ids(asked: TokenizeRequest, tokenizer: Tokenizer, owner: Namespace) -> list[int]:
    if asked.messages is None:
        return tokenizer.encode(asked.prompt or "", add_special_tokens=asked.add_special_tokens)
    generates = asked.add_generation_prompt
    return render(tokenizer, owner, asked.messages, asked.tools, add_generation_prompt=generates).tolist()


def _token_texts(token_ids: Sequence[int], tokenizer: Tokenizer) -> list[str]:
    """Each distinct token is decoded once: a long text has millions of tokens, but few different ones."""
    texts = {token_id: tokenizer.token_text(token_id) for token_id in set(token_ids)}
    return [texts[token_id] for token_id in token_ids]


def _detokenized(asked: DetokenizeRequest, tokenizer: Tokenizer) -> Response:
    if not all(0 <= token_id < tokenizer.vocab_size for token_id in asked.tokens):
        raise RequestError("tokens must be ids of the vocabulary", param="tokens")
    return json_response({"prompt": tokenizer.decode(asked.tokens, skip_special_tokens=False)})

"""``/cache/pins`` and ``/cache/tree``: the operator keeps prefixes, and looks at what is cached."""

import uuid
from collections.abc import Sequence
from functools import partial

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from anaphora.engine import Pin, TreeNode
from anaphora.errors import RequestError
from anaphora.protocol.answers import CacheNode, PinAnswer
from anaphora.protocol.operator import PinRequest
from anaphora.server.api import Api
from anaphora.server.chat import render
from anaphora.server.json_response import json_response
from anaphora.server.tenants import Tenants
from anaphora.server.usage import token_window
from anaphora.tokenizer.tokenizer import Tokenizer
from anaphora.types import Namespace

DEFAULT_NODES = 200
MAX_NODES = 2000
"""Nodes of one answer: while they are collected and written, all other requests wait, up to a tenth of a second."""


class CacheRoutes:
    """The operator's endpoints for the prefix cache. Tenants are named as :mod:`anaphora.server.tenants` says."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._cache = api.backend.cache
        self._tenants = Tenants(api.access.key_digests, api.settings.tenant_secret)

    async def pin(self, http: Request) -> Response:
        """``POST /cache/pins``: keep what is cached of a prompt. ``num_tokens`` of ``prompt_tokens`` are pinned."""
        asked, num_bytes = await self._api.read_from_operator(PinRequest, http)
        asked.check()
        self._api.model(asked.model)
        namespace = self._tenants.namespace(asked.tenant, asked.cache_salt)
        token_ids = await self._api.convert(partial(_token_ids, owner=namespace), asked, num_bytes)
        name = asked.id or f"pin-{uuid.uuid4().hex}"
        pin = await self._cache.pin(name, namespace, token_ids, asked.ttl_s)
        return json_response({**self._pin(pin, pin.pinned_at_s), "prompt_tokens": len(token_ids)})

    async def pins(self, http: Request) -> Response:
        """``GET /cache/pins``: all pins, and how much of what may be pinned is."""
        self._api.access.require_operator(http)
        pinned = await self._cache.pins()
        return json_response(
            {
                "pins": [self._pin(pin, pinned.now_s) for pin in pinned.pins],
                "num_blocks": pinned.num_blocks,
                "max_blocks": pinned.max_blocks,
                "max_pins": pinned.max_pins,
            }
        )

    async def unpin(self, http: Request) -> Response:
        """``DELETE /cache/pins/{id}``."""
        self._api.access.require_operator(http)
        name = http.path_params["id"]
        if not await self._cache.unpin(name):
            raise HTTPException(404, f"there is no pin {name!r}")
        return json_response({"id": name, "deleted": True})

    async def tree(self, http: Request) -> Response:
        """``GET /cache/tree?tenant=&limit=``: the prefix index, parents before children."""
        self._api.access.require_operator(http)
        limit = _limit(http.query_params.get("limit"))
        namespace = await self._namespace(http.query_params.get("tenant"))
        nodes = await self._cache.tree(namespace, limit + 1)
        shown = [self._node(node) for node in nodes[:limit]]
        return json_response({"nodes": shown, "is_complete": len(nodes) <= limit})

    async def _namespace(self, tenant: str | None) -> Namespace | None:
        if tenant is None:
            return None
        namespace = self._tenants.find(tenant, await self._cache.namespaces())
        if namespace is None:
            raise HTTPException(404, f"nothing of a tenant {tenant!r} is in the cache: without tenant all are shown")
        return namespace

    def _pin(self, pin: Pin, now_s: float) -> PinAnswer:
        return {
            "id": pin.name,
            "tenant": self._tenants.name(pin.namespace),
            "num_blocks": pin.num_blocks,
            "num_tokens": pin.num_tokens,
            "expires_in_s": None if pin.expires_at_s is None else round(pin.expires_at_s - now_s, 3),
        }

    def _node(self, node: TreeNode) -> CacheNode:
        return {
            "number": node.number,
            "parent": node.parent,
            "tenant": self._tenants.name(node.namespace),
            "state": node.state,
            "num_blocks": node.num_blocks,
            "num_tokens": node.num_tokens,
            "begins_with": token_window(node.first_tokens, self._api.backend.tokenizer),
            "num_holders": node.num_holders,
            "num_hits": node.num_hits,
            "age_blocks": node.age_blocks,
        }


def _token_ids(asked: PinRequest, tokenizer: Tokenizer, *, owner: Namespace) -> Sequence[int]:
    """A chat ends after its last message here: what follows it differs from request to request."""
    if asked.messages is not None:
        return render(tokenizer, owner, asked.messages, asked.tools, add_generation_prompt=False)
    if isinstance(asked.prompt, str):
        return tokenizer.encode(asked.prompt, add_special_tokens=asked.add_special_tokens)
    return asked.prompt or []


def _limit(text: str | None) -> int:
    if text is None:
        return DEFAULT_NODES
    if not (text.isascii() and text.isdecimal() and len(text) < 9 and 1 <= int(text) <= MAX_NODES):
        raise RequestError(f"limit must be a number from 1 to {MAX_NODES}", param="limit")
    return int(text)

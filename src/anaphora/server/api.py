"""What all routes with a body share: key and body, the model's name, and text that becomes tokens."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pydantic import BaseModel
from starlette.requests import Request

from anaphora.errors import UnknownModelError
from anaphora.protocol.parsing import parse
from anaphora.server.access import Access
from anaphora.server.backend import Backend
from anaphora.server.connection import read_body
from anaphora.server.settings import ServerSettings
from anaphora.tokenizer.tokenizer import Tokenizer

NUM_WORKERS = 2
"""Threads for long texts. Each keeps memory of its own (the tokenizer's words, malloc's free lists): more cost more."""
LONG_BODY_BYTES = 2**18
"""From here on text is converted in a thread: below that a thread costs more than the few milliseconds it frees."""

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


class Api:
    """The common first steps of a client's request."""

    def __init__(self, backend: Backend, settings: ServerSettings, access: Access) -> None:
        self.backend = backend
        self.settings = settings
        self.access = access
        self._workers = ThreadPoolExecutor(NUM_WORKERS, thread_name_prefix="anaphora-text")

    async def read(self, schema: type[M], http: Request) -> tuple[M, int]:
        """The checked body and its length in bytes. The key is checked before any of it is read.

        Raises:
            WrongKeyError: see :meth:`Access.tenant`.
            RequestError: see :func:`parse`; or the body is too large.
        """
        self.access.tenant(http.headers)
        return await self._parsed(schema, http)

    async def read_from_operator(self, schema: type[M], http: Request) -> tuple[M, int]:
        """As :meth:`read`, of a request that only the operator may make.

        Raises:
            WrongKeyError, ForbiddenError: see :meth:`Access.require_operator`.
            RequestError: see :func:`parse`; or the body is too large.
        """
        self.access.require_operator(http)
        return await self._parsed(schema, http)

    def model(self, name: str | None) -> str:
        """The model name to answer with: the one asked for, or the first if none was.

        Raises:
            UnknownModelError: no such model here.
        """
        names = self.settings.served_model_names
        if name is None:
            return names[0]
        if name not in names:
            raise UnknownModelError(
                f"the model {name!r} is not served here, only {', '.join(names)}", param="model", code="model_not_found"
            )
        return name

    async def convert(self, convert: Callable[[M, Tokenizer], T], asked: M, num_bytes: int) -> T:
        """``convert(asked, tokenizer)``; for long bodies in a thread, so that others do not wait for it."""
        if num_bytes < LONG_BODY_BYTES:
            return convert(asked, self.backend.tokenizer)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._workers, convert, asked, self.backend.tokenizer)

    async def _parsed(self, schema: type[M], http: Request) -> tuple[M, int]:
        body = await read_body(http, self.settings.max_body_bytes)
        return parse(schema, body), len(body)

"""A base URL that is asked with a key, which no answer, message or traceback shows again."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from anaphora.errors import ConfigError, TargetError
from anaphora.lab.address import BaseUrl
from anaphora.lab.answers import shorten
from anaphora.lab.clock import Clock
from anaphora.lab.http import HttpClient
from anaphora.lab.masking import Masking
from anaphora.lab.targets.base import KeyRefusedError
from anaphora.lab.targets.body import Body

REFUSED = (401, 403)
"""HTTP statuses that mean the key."""
_LOADING = 503
_POLL_S = 0.25


class Api:
    """Untimed questions by :meth:`get` and :meth:`fetch`; timed ones go straight to ``client``."""

    def __init__(
        self,
        base: BaseUrl,
        *,
        clock: Clock,
        api_key: str | None = None,
        api_key_env: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
            raise ConfigError(f"the key in ${api_key_env} holds characters that no HTTP header can carry")
        authorization = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._names_scheme = api_key is not None and api_key.lower().startswith("bearer ")
        self.base = base
        self.key_env = api_key_env
        self.headers: Mapping[str, str] = {**authorization, **(headers or {})}
        """They go with every request, may hold the key, and are never shown."""
        self.masking = Masking([api_key, *(headers or {}).values()])
        self.client = HttpClient(base, headers=self.headers, clock=clock)

    async def get(self, path: str) -> Body:
        """What stands there. :class:`TargetError` for a redirect, :class:`KeyRefusedError` without the right key."""
        answer = await self.fetch("GET", path)
        if answer.status in REFUSED:
            raise KeyRefusedError(self.refusal(answer.status))
        if 300 <= answer.status < 400:
            where = answer.headers.get("location", "elsewhere")
            raise TargetError(f"{self.base} redirects to {shorten(where)}: give that address as --target")
        return answer

    async def fetch(self, method: str, path: str, body: bytes = b"", timeout_s: float = 60.0) -> Body:
        """The answer, whatever its status, with the key masked."""
        answer = Body()
        await self.client.exchange(method, path, body=body, sink=answer, timeout_s=timeout_s)
        return answer.masked(self.masking)

    async def told(self, path: str, name: str) -> Any:
        """A field of the JSON object that stands there; ``None`` if there is none."""
        answer = await self.fetch("GET", path)
        try:
            return answer.json().get(name) if answer.status == 200 else None
        except (TargetError, AttributeError):
            return None

    def refusal(self, status: int) -> str:
        """What a status of :data:`REFUSED` means, and what to do."""
        if self.key_env is None:
            return (
                f"{self.base} wants a key (HTTP {status}): put it into an environment variable, say --api-key-env NAME"
            )
        advice = "check that it is this server's"
        if self._names_scheme:
            advice = "it begins with the word Bearer, which is put in front of every key: leave the word out"
        return f"{self.base} refuses the key in ${self.key_env} (HTTP {status}): {advice}"


async def has_api(base: BaseUrl, clock: Clock, timeout_s: float) -> bool:
    """Whether models are listed there, or a key is asked for. None is sent."""
    api = Api(base, clock=clock)
    try:
        found = await api.fetch("GET", f"{base.api}/models", timeout_s=timeout_s)
        value = found.json()
    except TargetError:
        return False
    finally:
        await api.client.close()
    return isinstance(value, Mapping) and ("data" in value or found.status in REFUSED)


async def while_loading(
    base: BaseUrl, ask: Callable[[], Awaitable[Body]], limit_s: float, on_wait: Callable[[str], None]
) -> Body:
    """The answer, asked for as long as the server says that it is loading; :class:`TargetError` beyond the limit."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit_s
    while (answer := await ask()).status == _LOADING:
        if loop.time() > deadline:
            raise TargetError(f"{base} is still loading after {limit_s:g} s: try again later, or raise --wait")
        on_wait("the server is loading its model")
        await asyncio.sleep(_POLL_S)
    return answer

"""Requests of every kind that a server meets: short and long, streamed, left in the middle, wrong, and mere texts."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

CONCURRENCY = 16
KINDS = {"short": 6, "long": 2, "stream": 5, "leave": 4, "vanish": 2, "wrong": 4, "text": 1}
"""Kinds by how often they come."""
LONG_TEXT_BYTES = 300_000
_WRONG: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/v1/completions", {"prompt": "x", "temperature": -1}),
    ("/v1/chat/completions", {"model": "nobody", "messages": [{"role": "user", "content": "hi"}]}),
    ("/v1/completions", {"prompt": [5] * 10_000}),
    ("/nowhere", {}),
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much a server is asked for at once, in tokens."""

    long_prompt: int
    output: int


class Load:
    """Bursts of requests; the same seed, the same bursts. No two prompts begin alike but by chance."""

    def __init__(self, base_url: str, model: str, sizes: Sizes, seed: int, kinds: Sequence[str] = tuple(KINDS)) -> None:
        self._base_url = base_url
        self._model = model
        self._sizes = sizes
        self._random = random.Random(seed)
        self._weights = {kind: KINDS[kind] for kind in kinds}

    async def burst(self, num_requests: int) -> Counter[str]:
        """Send so many, ``CONCURRENCY`` at a time; how each kind ended, as ``kind:status`` with counts."""
        waiting = self._random.choices(list(self._weights), list(self._weights.values()), k=num_requests)
        ended: Counter[str] = Counter()
        async with aiohttp.ClientSession(self._base_url) as session:

            async def work() -> None:
                while waiting:
                    kind = waiting.pop()
                    ended[f"{kind}:{await self._send(session, kind)}"] += 1

            await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
        return ended

    async def _send(self, session: aiohttp.ClientSession, kind: str) -> str:
        path, body = self._request(kind)
        if kind == "vanish":
            return await self._vanish(session, path, body)
        async with session.post(path, json=body) as response:
            if kind == "leave" and response.status == 200:
                await response.content.readany()
                response.close()
                return "left"
            await response.read()
            return str(response.status)

    async def _vanish(self, session: aiohttp.ClientSession, path: str, body: dict[str, Any]) -> str:
        """Go away before the answer begins, or while it is made."""
        limit = aiohttp.ClientTimeout(total=self._random.random() * 0.05)
        with contextlib.suppress(TimeoutError):
            async with session.post(path, json=body, timeout=limit) as response:
                await response.read()
                return str(response.status)
        return "left"

    def _request(self, kind: str) -> tuple[str, dict[str, Any]]:
        if kind == "text":
            words = " ".join(str(self._random.randrange(10**6)) for _ in range(LONG_TEXT_BYTES // 7))
            return "/tokenize", {"prompt": words, "return_token_strs": True}
        if kind == "wrong":
            return self._random.choice(_WRONG)
        length = self._sizes.long_prompt if kind == "long" else self._random.randrange(4, 40)
        prompt = [self._random.randrange(3, 250) for _ in range(length)]
        streams = kind in ("stream", "leave") or (kind == "vanish" and self._random.random() < 0.5)
        body = {"model": self._model, "prompt": prompt, "max_tokens": self._sizes.output, "ignore_eos": True}
        return "/v1/completions", {**body, "stream": streams}

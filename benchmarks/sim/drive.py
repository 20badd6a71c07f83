"""An open loop: every chat is sent when its time has come, whatever became of the others."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from benchmarks.cpu.client import READ_LIMIT_S, ServerFailedError, read_reply
from benchmarks.sim.load import Chat


@dataclass(frozen=True, slots=True)
class Measured:
    """One chat as it was sent and answered, and its prompt's tokens as the server counts them."""

    sent_s: float
    """Since the first one was sent."""
    ttft_ms: float
    e2e_ms: float
    num_output_tokens: int
    num_cached_tokens: int
    salt: str
    token_ids: list[int]


class Driver:
    """Sends chats to one server, temperature 0, without an end before ``max_tokens``."""

    def __init__(self, session: aiohttp.ClientSession, base_url: str, model: str) -> None:
        self._session = session
        self._base_url = base_url
        self._model = model

    async def run(self, chats: list[Chat]) -> list[Measured]:
        """Empty the cache, send all, and return them in order. Raises ``ServerFailedError``."""
        await self._post("/reset_prefix_cache", {})
        prompts = [(await self._post("/tokenize", self._prompt(chat)))["tokens"] for chat in chats]
        bodies = [json.dumps(self._body(chat)).encode() for chat in chats]
        start_s = time.perf_counter() + 0.5
        tasks = [asyncio.create_task(self._send(start_s + c.at_s, b)) for c, b in zip(chats, bodies, strict=True)]
        replies = await asyncio.gather(*tasks)
        first_s = replies[0].sent_s
        return [
            Measured(
                reply.sent_s - first_s,
                reply.ttft_ms,
                1000 * (reply.done_s - reply.sent_s),
                reply.num_output_tokens,
                reply.num_cached_tokens or 0,
                chat.salt,
                prompt,
            )
            for chat, reply, prompt in zip(chats, replies, prompts, strict=True)
        ]

    async def ask(self, chat: Chat) -> Any:
        """One chat, now: the reply as ``read_reply`` gives it."""
        return await self._send(time.perf_counter(), json.dumps(self._body(chat)).encode())

    async def _send(self, at_s: float, body: bytes) -> Any:
        await asyncio.sleep(max(0.0, at_s - time.perf_counter()))
        arrivals: list[tuple[float, bytes]] = []
        sent_s = time.perf_counter()
        headers = {"Content-Type": "application/json"}
        url = f"{self._base_url}/v1/chat/completions"
        async with self._session.post(url, data=body, headers=headers) as response:
            async for chunk in response.content.iter_any():
                arrivals.append((time.perf_counter(), chunk))
            if response.status != 200:
                raise ServerFailedError(f"status {response.status}: {b''.join(c for _, c in arrivals)[:500]!r}")
        return read_reply(sent_s, time.perf_counter(), arrivals)

    async def _post(self, path: str, body: dict[str, Any]) -> Any:
        async with self._session.post(self._base_url + path, json=body) as response:
            if response.status != 200:
                raise ServerFailedError(f"{path}: status {response.status}: {(await response.text())[:500]}")
            return await response.json()

    def _prompt(self, chat: Chat) -> dict[str, Any]:
        messages = [{"role": "system", "content": chat.system}, {"role": "user", "content": chat.question}]
        return {"model": self._model, "messages": messages}

    def _body(self, chat: Chat) -> dict[str, Any]:
        return {
            **self._prompt(chat),
            "temperature": 0,
            "ignore_eos": True,
            "max_tokens": chat.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            **({"cache_salt": chat.salt} if chat.salt else {}),
        }


@asynccontextmanager
async def driver(base_url: str, model: str) -> AsyncIterator[Driver]:
    """To one server."""
    timeout = aiohttp.ClientTimeout(total=None, sock_read=READ_LIMIT_S)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
        yield Driver(session, base_url, model)


async def measure(base_url: str, model: str, chats: list[Chat]) -> list[Measured]:
    """One load, from an empty cache."""
    async with driver(base_url, model) as one:
        return await one.run(chats)

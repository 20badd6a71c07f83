"""A streaming chat client that stamps bytes when they arrive and reads them when the answer is over."""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import aiohttp

from anaphora.protocol.sse import DONE, EventStreamDecoder

READ_LIMIT_S = 600.0


class ServerFailedError(Exception):
    """The server refused a request, or its answer cannot be read."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One streamed answer. Stamps are seconds of one monotonic clock; token counts are the server's own.

    ``first_token_s``: arrival of the bytes that carry the first generated text (or, if the tokens have no text, the
    reason for the end). ``num_cached_tokens`` is ``None`` where the server does not tell.
    """

    sent_s: float
    first_token_s: float
    last_token_s: float
    done_s: float
    num_prompt_tokens: int
    num_output_tokens: int
    num_cached_tokens: int | None
    text: str

    @property
    def ttft_ms(self) -> float:
        """Time to the first token."""
        return 1000 * (self.first_token_s - self.sent_s)

    @property
    def decode_tokens_per_s(self) -> float:
        """Tokens a second after the first one."""
        return (self.num_output_tokens - 1) / (self.last_token_s - self.first_token_s)


class ChatClient:
    """Talks to one server over warm connections. Every request: temperature 0, no end before ``max_tokens``."""

    def __init__(self, session: aiohttp.ClientSession, base_url: str, model: str) -> None:
        self._session = session
        self._base_url = base_url
        self._model = model

    async def ask(self, system: str, question: str, *, max_tokens: int) -> Reply:
        """Send one chat and read the whole answer. Raises ``ServerFailedError``."""
        body = json.dumps(self._body(system, question, max_tokens)).encode()
        await self._touch()
        arrivals: list[tuple[float, bytes]] = []
        sent_s = time.perf_counter()
        async with self._session.post(
            f"{self._base_url}/v1/chat/completions", data=body, headers={"Content-Type": "application/json"}
        ) as response:
            async for chunk in response.content.iter_any():
                arrivals.append((time.perf_counter(), chunk))
            done_s = time.perf_counter()
            if response.status != 200:
                raise ServerFailedError(f"status {response.status}: {b''.join(c for _, c in arrivals)[:500]!r}")
        return read_reply(sent_s, done_s, arrivals)

    def _body(self, system: str, question: str, max_tokens: int) -> dict[str, Any]:
        return {
            "model": self._model,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": question}],
            "temperature": 0,
            "ignore_eos": True,
            "max_tokens": max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    async def _touch(self) -> None:
        """Open or reopen the connection: servers close idle ones after seconds, and other servers had their turn."""
        async with self._session.get(f"{self._base_url}/health") as response:
            await response.read()


def read_reply(sent_s: float, done_s: float, arrivals: Iterable[tuple[float, bytes]]) -> Reply:
    """Make a reply of stamped bytes. Raises ``ServerFailedError`` if they carry no generation or no usage."""
    decoder = EventStreamDecoder()
    token_stamps: list[float] = []
    texts: list[str] = []
    usage: dict[str, Any] = {}
    end_s: float | None = None
    for stamp, chunk in arrivals:
        for event in decoder.feed(chunk):
            if event.data == DONE:
                continue
            message = json.loads(event.data)
            if "error" in message:
                raise ServerFailedError(f"error in the stream: {event.data[:500]}")
            usage = message.get("usage") or usage
            for choice in message.get("choices") or ():
                text = choice.get("delta", {}).get("content")
                if text:
                    token_stamps.append(stamp)
                    texts.append(text)
                if choice.get("finish_reason"):
                    end_s = stamp
    if not token_stamps and end_s is not None:
        token_stamps = [end_s]
    if not token_stamps or "prompt_tokens" not in usage:
        raise ServerFailedError("the stream ended without a generated token or without usage")
    return Reply(
        sent_s=sent_s,
        first_token_s=token_stamps[0],
        last_token_s=token_stamps[-1],
        done_s=done_s,
        num_prompt_tokens=usage["prompt_tokens"],
        num_output_tokens=usage["completion_tokens"],
        num_cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
        text="".join(texts),
    )

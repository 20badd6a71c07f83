"""One streaming request on a connection of its own, read to whatever end it comes to, or left before it."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import httptools
import uvloop

from anaphora.protocol.sse import DONE, EventStreamDecoder

HOST = "127.0.0.1"
_READ_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a client asks, when, and when it goes away: never, after so many seconds, or after so many events."""

    prompt: tuple[int, ...]
    max_tokens: int
    starts_after_s: float = 0.0
    reference: int | None = None
    """The number of the question whose answer is known from when it was asked alone."""
    leaves_after_s: float | None = None
    leaves_after_events: int | None = None


class Kind(StrEnum):
    """How a request can end."""

    ANSWERED = "answered"
    """With the reason ``length``, a usage that counts every token, and ``[DONE]``."""
    REFUSED = "refused"
    """With an error status and OpenAI's error object."""
    FAILED = "failed"
    """In its stream, with an event that holds OpenAI's error object."""
    LEFT = "left"
    """By the client's own will."""
    WRONG = "wrong"
    """In a way that the API does not have."""
    LOST = "lost"
    """The connection ended, and nothing was said."""
    HANGING = "hanging"
    """Not within the time that was given."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How one request ended. ``detail``: status and code of an error, or what is wrong."""

    kind: Kind
    detail: str = ""
    message: str = ""
    """Of an error."""
    text: str = ""
    num_events: int = 0
    """Events with a part of the answer that had come."""
    is_step_error: bool = False
    """The engine had the request in a step that failed."""

    @property
    def label(self) -> str:
        """To be counted by."""
        if self.kind is Kind.LEFT:
            return "left midway" if self.num_events else "left before the first token"
        what = self.message.partition(": ")[0] if self.is_step_error else ""  # without the advice behind it
        return ": ".join(filter(None, (self.kind, self.detail, what)))


def ask_all(port: int, model: str, asks: Sequence[Ask], limit_s: float) -> list[Ending]:
    """Send all at once and wait for all, at most ``limit_s`` seconds each. Endings in the order of ``asks``."""

    async def all_at_once() -> list[Ending]:
        return list(await asyncio.gather(*(_ask(port, model, ask, limit_s) for ask in asks)))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(all_at_once())


def ask_in_turn(port: int, model: str, asks: Sequence[Ask], limit_s: float) -> list[Ending]:
    """The same, one after the other."""
    return [ask_all(port, model, [ask], limit_s)[0] for ask in asks]


async def _ask(port: int, model: str, ask: Ask, limit_s: float) -> Ending:
    reply = Reply()
    try:
        await asyncio.sleep(ask.starts_after_s)
        async with asyncio.timeout(limit_s):
            has_left = await _exchange(port, _request(port, model, ask), ask, reply)
    except TimeoutError:
        return Ending(Kind.HANGING, num_events=reply.num_events)
    except (OSError, httptools.HttpParserError) as error:
        return Ending(Kind.LOST, type(error).__name__, num_events=reply.num_events)
    return Ending(Kind.LEFT, num_events=reply.num_events) if has_left else reply.ending(ask)


async def _exchange(port: int, request: bytes, ask: Ask, reply: "Reply") -> bool:
    """Whether the client left before the end of the reply."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        async with asyncio.timeout(ask.leaves_after_s):
            writer.write(request)
            while not reply.is_complete:
                data = await reader.read(_READ_BYTES)
                if not data:
                    return False
                reply.feed(data)
                if ask.leaves_after_events is not None and reply.num_events >= ask.leaves_after_events:
                    return not reply.is_complete
            return False
    except TimeoutError:  # of leaving: a limit from outside arrives as a cancellation
        return True
    finally:
        writer.transport.abort()


def _request(port: int, model: str, ask: Ask) -> bytes:
    body = json.dumps(
        {
            "model": model,
            "prompt": ask.prompt,
            "max_tokens": ask.max_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ).encode()
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: {HOST}:{port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Reply:
    """What has come of one reply. httptools calls the methods that begin with ``on``."""

    def __init__(self) -> None:
        self.is_complete = False
        self.num_events = 0
        self._parser = httptools.HttpResponseParser(self)
        self._decoder = EventStreamDecoder()
        self._body = bytearray()
        self._text = ""
        self._error: dict[str, Any] | None = None
        self._usage: dict[str, Any] | None = None
        self._finish_reason: str | None = None
        self._is_done = False

    def feed(self, data: bytes) -> None:
        """Take in bytes of the connection."""
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        if self._parser.get_status_code() != 200:
            self._body += body
            return
        for event in self._decoder.feed(body):
            if event.data == DONE:
                self._is_done = True
            else:
                self._take(json.loads(event.data))

    def on_message_complete(self) -> None:
        """The end, as the transfer's own rules have it."""
        self.is_complete = True

    def ending(self, ask: Ask) -> Ending:
        """How a reply ended that nobody left."""
        if not self.is_complete:
            return Ending(Kind.LOST, "the connection was closed", num_events=self.num_events)
        status = self._parser.get_status_code()
        if status != 200:
            return self._refusal(status)
        if self._error is not None:
            return self._told(Kind.FAILED, self._error, "")
        wrong = self._what_is_wrong(ask)
        return Ending(Kind.WRONG if wrong else Kind.ANSWERED, wrong, text=self._text, num_events=self.num_events)

    def _take(self, message: dict[str, Any]) -> None:
        self._error = message.get("error") or self._error
        self._usage = message.get("usage") or self._usage
        for choice in message.get("choices", ()):
            self.num_events += 1
            self._text += choice["text"]
            self._finish_reason = choice["finish_reason"] or self._finish_reason

    def _refusal(self, status: int) -> Ending:
        try:
            return self._told(Kind.REFUSED, json.loads(self._body)["error"], f"{status} ")
        except (ValueError, KeyError, TypeError):
            return Ending(Kind.WRONG, f"status {status} without an error object")

    def _told(self, kind: Kind, error: dict[str, Any], status: str) -> Ending:
        code = error["code"]
        is_step_error = code == "internal_error"
        return Ending(
            kind, f"{status}{code}", error["message"], num_events=self.num_events, is_step_error=is_step_error
        )

    def _what_is_wrong(self, ask: Ask) -> str:
        usage = self._usage or {}
        counts = (usage.get("prompt_tokens"), usage.get("completion_tokens"))
        if not self._is_done:
            return "the stream has no [DONE]"
        if self._finish_reason != "length":
            return f"finish_reason {self._finish_reason}"
        return "" if counts == (len(ask.prompt), ask.max_tokens) else "the usage does not count every token"

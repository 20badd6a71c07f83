"""A streaming chat client on plain sockets: bytes are stamped as they arrive and read when the answer is over.

One thread and one keep-alive connection a client. Nothing is parsed before the answer has ended but the end itself.
Reading 130 events takes a thread some milliseconds, in which the others of its process stamp nothing: of clients that
ask at once all answers must have ended before one is read.
"""

import json
import socket
import time
from dataclasses import dataclass
from typing import Any

from anaphora.protocol.sse import DONE, EventStreamDecoder

READ_LIMIT_S = 300.0
_RECEIVE_BYTES = 1 << 18
_END_OF_CHUNKS = b"0\r\n\r\n"


class RequestFailedError(Exception):
    """The server refused a request, or its answer cannot be read."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One streamed answer; seconds of one monotonic clock, token counts as the server tells them.

    ``first_token_s``: arrival of the bytes with the first generated text or, if the tokens have none, with the reason
    for the end. ``num_cached_tokens`` is ``None`` where the server does not tell.
    """

    sent_s: float
    first_token_s: float
    last_token_s: float
    done_s: float
    num_prompt_tokens: int
    num_output_tokens: int
    num_cached_tokens: int | None

    @property
    def ttft_ms(self) -> float:
        return 1000 * (self.first_token_s - self.sent_s)

    @property
    def tpot_ms(self) -> float:
        """Milliseconds per token after the first."""
        return 1000 * (self.last_token_s - self.first_token_s) / (self.num_output_tokens - 1)


@dataclass(frozen=True, slots=True)
class Answer:
    """The bytes of one answer, each piece with the time of its arrival; not read yet."""

    sent_s: float
    arrivals: list[tuple[float, bytes]]

    def read(self) -> Reply:
        """What it says.

        Raises:
            RequestFailedError: the answer carries no generation.
        """
        return read_reply(self.sent_s, self.arrivals)


class Client:
    """One connection to a server on this machine."""

    def __init__(self, port: int, model: str) -> None:
        self._address = ("127.0.0.1", port)
        self._model = model
        self._socket: socket.socket | None = None

    def ask(self, system: str, question: str, *, max_tokens: int) -> Reply:
        """Send one chat, greedy and without an end before ``max_tokens``, and read the whole answer.

        Raises:
            RequestFailedError: it was refused, or the answer carries no generation.
        """
        return self.send(self.request(system, question, max_tokens)).read()

    def send(self, request: bytes) -> Answer:
        """Send what :meth:`request` made, and take the whole answer.

        Raises:
            RequestFailedError: it was refused.
        """
        for attempt in range(2):
            try:
                return self._exchange(request)
            except ConnectionError:  # a server may have closed an idle connection
                self.close()
                if attempt:
                    raise
        raise AssertionError("two attempts return or raise")

    def close(self) -> None:
        """Give the connection up; the next request opens a new one."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def request(self, system: str, question: str, max_tokens: int) -> bytes:
        """One streaming chat as it goes over the wire."""
        body = json.dumps(
            {
                "model": self._model,
                "messages": [{"role": "system", "content": system}, {"role": "user", "content": question}],
                "temperature": 0,
                "ignore_eos": True,
                "max_tokens": max_tokens,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        ).encode()
        head = (
            "POST /v1/chat/completions HTTP/1.1\r\n"
            f"Host: {self._address[0]}:{self._address[1]}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def _exchange(self, request: bytes) -> Answer:
        connection = self._connected()
        arrivals: list[tuple[float, bytes]] = []
        tail = b""
        sent_s = time.perf_counter()
        connection.sendall(request)
        while not tail.endswith(_END_OF_CHUNKS):
            data = connection.recv(_RECEIVE_BYTES)
            if not data:
                raise ConnectionError("the server closed the connection")
            arrivals.append((time.perf_counter(), data))
            tail = (tail + data)[-len(_END_OF_CHUNKS) :]
            if len(arrivals) == 1 and not data.startswith(b"HTTP/1.1 200"):
                raise RequestFailedError(data[:500].decode(errors="replace"))
        return Answer(sent_s, arrivals)

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=READ_LIMIT_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket


def read_reply(sent_s: float, arrivals: list[tuple[float, bytes]]) -> Reply:
    """Make a reply of stamped bytes of one chunked HTTP answer."""
    decoder, stamps = EventStreamDecoder(), list[float]()
    usage: dict[str, Any] = {}
    end_s: float | None = None
    for stamp, data in _bodies(arrivals):
        for event in decoder.feed(data):
            if event.data == DONE:
                continue
            message = json.loads(event.data)
            if "error" in message:
                raise RequestFailedError(event.data[:500])
            usage = message.get("usage") or usage
            for choice in message.get("choices") or ():
                if choice.get("delta", {}).get("content"):
                    stamps.append(stamp)
                end_s = stamp if choice.get("finish_reason") else end_s
    if not stamps and end_s is not None:
        stamps = [end_s]
    if not stamps or "prompt_tokens" not in usage:
        raise RequestFailedError("the answer has no generated token or no usage")
    return Reply(
        sent_s=sent_s,
        first_token_s=stamps[0],
        last_token_s=stamps[-1] if end_s is None else max(stamps[-1], end_s),
        done_s=arrivals[-1][0],
        num_prompt_tokens=usage["prompt_tokens"],
        num_output_tokens=usage["completion_tokens"],
        num_cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
    )


def _bodies(arrivals: list[tuple[float, bytes]]) -> list[tuple[float, bytes]]:
    """The content of each chunk of the transfer, with the stamp of the bytes that completed it."""
    bodies: list[tuple[float, bytes]] = []
    buffer, in_head = b"", True
    for stamp, data in arrivals:
        buffer += data
        if in_head:
            _, found, rest = buffer.partition(b"\r\n\r\n")
            if not found:
                continue
            buffer, in_head = rest, False
        while True:
            size_text, found, rest = buffer.partition(b"\r\n")
            size = int(size_text.split(b";")[0], 16) if found else 0
            if not size or len(rest) < size + 2:
                break
            bodies.append((stamp, rest[:size]))
            buffer = rest[size + 2 :]
    return bodies

"""An OpenAI-compatible server without a model: what a request takes is planted, and so is what its cache holds.

    python -m benchmarks.lab.planted_server

It writes its port on a line and serves until its standard input ends. A word is a token. Whole blocks of a prompt that
was seen with the same salt are cached, but for its last token. The time is told by
:class:`~benchmarks.lab.planted.Planted` and runs from the moment at which the kernel took the request in; the last
part of it is waited for awake, so that the answer leaves on time. ``POST /plant`` says what is planted from now on, and
empties the cache.
"""

import json
import select
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from benchmarks.lab.planted import BLOCK_SIZE, Noise, Planted

from anaphora.lab.calibration.timed_server import content_length
from anaphora.lab.kernel_stamps import StampedSocket
from anaphora.protocol.sse import ENCODED_DONE, encode_event

MODEL = "planted"
_AWAKE_NS = 400_000
_CONTEXT = 8192


@dataclass
class Serving:
    """The cache, the counters, and what is planted."""

    planted: Planted = field(default_factory=Planted)
    noise: Noise = field(default_factory=Noise)
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    queried: int = 0
    cached: int = 0
    _ids: dict[str, int] = field(default_factory=dict)
    _blocks: set[int] = field(default_factory=set)

    def plant(self, planted: Planted, noise: Noise, seed: int) -> None:
        """From now on, with an empty cache."""
        self.planted, self.noise, self.rng = planted, noise, np.random.default_rng(seed)
        self._blocks.clear()

    def serve(self, words: Sequence[str], salt: str | None) -> tuple[int, float]:
        """Cached tokens of a prompt, and the milliseconds that it takes; its own blocks are cached then."""
        keys, key = [], hash((salt,))
        for start in range(0, len(words) - BLOCK_SIZE + 1, BLOCK_SIZE):
            key = hash((key, *words[start : start + BLOCK_SIZE]))
            keys.append(key)
        hits = next((n for n, key in enumerate(keys) if key not in self._blocks), len(keys))
        cached = min(hits, (len(words) - 1) // BLOCK_SIZE) * BLOCK_SIZE
        self._blocks.update(keys)
        self.queried += len(words)
        self.cached += cached
        return cached, self.noise.around(self.planted.ttft_ms(len(words) - cached, cached), self.rng)

    def token_ids(self, words: Sequence[str]) -> list[int]:
        """The words' ids."""
        return [self._ids.setdefault(word, len(self._ids)) for word in words]


class Conversation:
    """One connection, request by request."""

    def __init__(self, serving: Serving, connected: socket.socket) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._serving = serving
        self._socket = connected
        self._stamped = StampedSocket(connected, time.monotonic_ns)
        self._received = b""

    def talk(self) -> None:
        """Until the client has gone."""
        try:
            while (request := self._request()) is not None:
                self._answer(*request)
        except OSError:
            pass
        finally:
            self._stamped.close()
            self._socket.close()

    def _request(self) -> tuple[int, str, dict[str, Any]] | None:
        """When its first bytes came, its first line's method and path, and its body."""
        arrival_ns = 0
        while True:
            head, found, body = self._received.partition(b"\r\n\r\n")
            if found and len(body) >= (length := content_length(head)):
                self._received = body[length:]
                return arrival_ns, head.partition(b" HTTP")[0].decode(), json.loads(body[:length] or b"{}")
            select.select([self._stamped], [], [])
            arrival = self._stamped.read()
            if arrival is not None:
                if not arrival[1]:
                    return None
                arrival_ns = arrival_ns or arrival[0]
                self._received += arrival[1]

    def _answer(self, arrival_ns: int, what: str, body: Mapping[str, Any]) -> None:
        serving = self._serving
        match what:
            case "POST /v1/chat/completions":
                self._chat(arrival_ns, body)
            case "POST /tokenize":
                words = _words(body["messages"]) if "messages" in body else body["prompt"].split()
                self._say(json.dumps({"tokens": serving.token_ids(words)}).encode())
            case "GET /v1/models":
                self._say(json.dumps({"data": [{"id": MODEL, "max_model_len": _CONTEXT}]}).encode())
            case "GET /metrics":
                self._say(_metrics(serving).encode(), kind="text/plain; version=0.0.4")
            case "POST /plant":
                serving.plant(Planted(**body["planted"]), Noise(**body["noise"]), body["seed"])
                self._say(b"{}")
            case _:
                self._say(b'{"error": {"message": "no such route"}}', status="404 Not Found")

    def _chat(self, arrival_ns: int, body: Mapping[str, Any]) -> None:
        words = _words(body["messages"])
        cached, time_ms = self._serving.serve(words, body.get("cache_salt"))
        usage = {
            "prompt_tokens": len(words),
            "completion_tokens": 1,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        choice = {"index": 0, "delta": {"content": "word"}, "finish_reason": "length"}
        events = [{"choices": [choice]}, {"choices": [], "usage": usage}]
        stream = b"".join(encode_event(json.dumps(event)) for event in events) + ENCODED_DONE
        _wait_until(arrival_ns + round(time_ms * 1e6))
        self._say(stream, kind="text/event-stream")

    def _say(self, body: bytes, *, kind: str = "application/json", status: str = "200 OK") -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._socket.sendall(head.encode() + body)


def _wait_until(deadline_ns: int) -> None:
    time.sleep(max(0, deadline_ns - _AWAKE_NS - time.monotonic_ns()) / 1e9)
    while time.monotonic_ns() < deadline_ns:
        pass


def _words(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    return [word for m in messages for word in (f"<{m['role']}>", *m["content"].split())] + ["<assistant>"]


def _metrics(serving: Serving) -> str:
    return (
        f"# TYPE vllm:prefix_cache_queries counter\nvllm:prefix_cache_queries_total {serving.queried}\n"
        f"# TYPE vllm:prefix_cache_hits counter\nvllm:prefix_cache_hits_total {serving.cached}\n"
        "# TYPE vllm:cache_config_info gauge\n"
        f'vllm:cache_config_info{{block_size="{BLOCK_SIZE}",num_gpu_blocks="1000000"}} 1\n'
    )


def main() -> None:
    """Serve until standard input ends."""
    serving = Serving()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        threading.Thread(target=_accept, args=(listener, serving), daemon=True).start()
        sys.stdin.buffer.read()


def _accept(listener: socket.socket, serving: Serving) -> None:
    while True:
        connected, _ = listener.accept()
        threading.Thread(target=Conversation(serving, connected).talk, daemon=True).start()


if __name__ == "__main__":
    main()

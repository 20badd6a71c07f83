"""A client that goes away, whenever that is, takes its request with it: no block stays behind."""

import json
import random
import socket
import threading
import time
from pathlib import Path

import httpx
import pytest

from anaphora.tokenizer.tokenizer import Tokenizer
from tests.patience import LOCAL, PATIENCE_S
from tests.server.live import LiveServer, serving
from tests.server.scripted_backend import ScriptedBackend

NUM_DISCONNECTS = 200


def raw_request(path: str, body: object) -> bytes:
    content = json.dumps(body).encode()
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


def received_until(mark: bytes, connection: socket.socket) -> bytes:
    """What has come when the mark is there; head and body, and parts of each, may come apart."""
    received = b""
    while mark not in received:
        chunk = connection.recv(65536)
        assert chunk, received
        received += chunk
    return received


def wait_until(condition: object, server: LiveServer) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition(server):  # type: ignore[operator]
        assert time.monotonic() < deadline, server.backend.stats()
        time.sleep(0.01)


def is_idle(server: LiveServer) -> bool:
    stats = server.backend.stats()
    return (stats.num_running, stats.num_waiting, stats.num_free_blocks) == (0, 0, stats.num_blocks)


def go_away(server: LiveServer, seed: int) -> None:
    """One request, left at a random moment: before its body is out, while it waits, or within its stream."""
    chance = random.Random(seed)
    body = {
        "prompt": [chance.randrange(3, 400) for _ in range(chance.choice((1, 15, 16, 17, 90)))],
        "max_tokens": 300,
        "ignore_eos": True,
        "stream": chance.random() < 0.6,
        "n": chance.choice((1, 1, 3)),
    }
    raw = raw_request("/v1/completions", body)
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        connection.sendall(raw[: chance.choice((len(raw) // 2, len(raw), len(raw), len(raw)))])
        if chance.random() < 0.5:
            connection.settimeout(chance.random() * 0.05 + 0.001)
            try:
                while connection.recv(chance.choice((1, 100, 2000))) and chance.random() < 0.7:
                    pass
            except TimeoutError:
                pass
        if chance.random() < 0.5:  # a reset in place of an orderly end
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def test_two_hundred_disconnects_leave_no_block_behind(tiny_model: Path) -> None:
    with serving(tiny_model, num_gpu_blocks_override=96, max_num_seqs=8, max_model_len=400) as server:
        for start in range(0, NUM_DISCONNECTS, 8):
            threads = [threading.Thread(target=go_away, args=(server, start + i)) for i in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        wait_until(is_idle, server)
        stats = server.backend.stats()
        assert stats.num_finished["abort"] > NUM_DISCONNECTS / 4
        prompt = list(range(100, 200))
        answers = [
            httpx.post(f"{server.url}/v1/completions", json={"prompt": prompt}, **LOCAL).json() for _ in range(2)
        ]
        assert answers[1]["usage"]["prompt_tokens_details"]["cached_tokens"] == 96


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("script", [[None], ["some text", None]], ids=["before-any-output", "amid-output"])
def test_each_engine_request_is_closed(tiny_model: Path, script: list[str | None], n: int, stream: bool) -> None:
    backend = ScriptedBackend(Tokenizer.from_folder(tiny_model), script)
    with serving(backend=backend) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
            connection.sendall(raw_request("/v1/completions", {"prompt": "hi", "stream": stream, "n": n}))
            wait_until(lambda _: backend.num_open == n, server)
            if stream and script[0]:
                received_until(b"some text", connection)
        wait_until(lambda _: backend.num_open == 0, server)
        assert httpx.get(f"{server.url}/health", **LOCAL).status_code == 200

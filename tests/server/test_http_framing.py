"""What is no HTTP, or only half of it: the error object with the right status, and the connection ends."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from anaphora.server import http_protocol
from anaphora.tokenizer.tokenizer import Tokenizer
from tests.patience import LOCAL, PATIENCE_S
from tests.server.live import LiveServer, serving
from tests.server.scripted_backend import ScriptedBackend
from tests.server.test_disconnects import raw_request, received_until, wait_until

POST = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
GOOD = raw_request("/v1/completions", {"prompt": "hi"})


@pytest.fixture(scope="module")
def server(tiny_model: Path) -> Iterator[LiveServer]:
    with serving(backend=ScriptedBackend(Tokenizer.from_folder(tiny_model))) as server:
        yield server


@pytest.fixture
def backend(server: LiveServer) -> Iterator[ScriptedBackend]:
    """Its engine, whose script a test may change."""
    backend: ScriptedBackend = server.backend
    usual = backend.script
    yield backend
    backend.script = usual


@pytest.fixture(autouse=True)
def _lives_on(server: LiveServer) -> Iterator[None]:
    yield
    assert httpx.get(f"{server.url}/health", **LOCAL).status_code == 200
    assert server.backend.num_open == 0


def connect(server: LiveServer) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def received_until_end(client: socket.socket) -> bytes:
    received = b""
    while chunk := client.recv(65536):
        received += chunk
    return received


def received_as_json(client: socket.socket) -> bytes:
    """One answer whose body is an object; it may come in pieces."""
    received = b""
    while not received.endswith(b"}"):
        chunk = client.recv(65536)
        assert chunk, received
        received += chunk
    return received


def exchange(server: LiveServer, sent: bytes, *, closes_sending_side: bool = False) -> bytes:
    """What comes back until the server ends the connection."""
    with connect(server) as client:
        client.sendall(sent)
        if closes_sending_side:
            client.shutdown(socket.SHUT_WR)
        return received_until_end(client)


def refusal(received: bytes, status: int, code: str) -> str:
    """The message of an answer that must be the error object with ``status`` and ``code``, and close the connection."""
    head, _, body = received.partition(b"\r\n\r\n")
    status_line, *lines = head.decode().lower().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    assert status_line.startswith(f"http/1.1 {status} ")
    assert headers["content-type"] == "application/json"
    assert headers["connection"] == "close"
    assert int(headers["content-length"]) == len(body)
    error: dict[str, Any] = json.loads(body)["error"]
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", None, code)
    return str(error["message"])


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"hello there\r\n\r\n", "Invalid method encountered"),
        (b"\x16\x03\x01\x02\x00\x01\x00", "this looks like TLS, but the server speaks http://, not https://"),
        (b"GET / HTTP/9.9\r\n\r\n", "Invalid HTTP version"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "Pause on PRI/Upgrade"),
        (b"GET /\xff HTTP/1.1\r\n\r\n", "Invalid char in url path"),
        (b"CONNECT x:80 HTTP/1.1\r\n\r\n", "invalid url b'x:80'"),
        (b"GET / HTTP/1.1\r\nno header\r\n\r\n", "Invalid header token"),
        (POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "Duplicate Content-Length"),
        (POST + b"Content-Length: five\r\n\r\nhello", "Invalid character in Content-Length"),
        (POST + b"Content-Length: -1\r\n\r\n", "Invalid character in Content-Length"),
        (POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "Transfer-Encoding can't be present with"),
        (POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\n{}", "along with a protocol upgrade"),
        (POST + b"Transfer-Encoding: gzip\r\n\r\nxx", "Request has invalid `Transfer-Encoding`"),
        (CHUNKED + b"5\r\nhello\r\nzz\r\n", "Invalid character in chunk size"),
        (CHUNKED + b"fffffffffffffffff\r\n", "Chunk size overflow"),
        (CHUNKED + b"5\r\nhello?\r\n", "Expected LF after chunk data"),
    ],
)
def test_what_is_no_http_is_told_why(server: LiveServer, sent: bytes, reason: str) -> None:
    message = refusal(exchange(server, sent), 400, "invalid_http")
    assert message.startswith("the request is not valid HTTP/1.1: ")
    assert reason in message


def test_a_transfer_encoding_that_is_not_read_is_refused_as_such(server: LiveServer) -> None:
    head = POST + b"Connection: close\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"
    message = refusal(exchange(server, head + b"0\r\n\r\n"), 400, "invalid_value")
    assert message == "bodies with Transfer-Encoding gzip, chunked are not read: send it as it is"


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health HTTP/1.1\r\nA: " + b"x" * 2**20,
        b"GET /health HTTP/1.1\r\n" + b"A: x\r\n" * 2**17,
        b"GET /" + b"x" * 2**20,
        HEALTH.replace(b"\r\n\r\n", b"\r\nA: " + b"x" * http_protocol.MAX_HEAD_BYTES + b"\r\n\r\n"),
    ],
    ids=["endless header", "endless headers", "endless path", "whole"],
)
@pytest.mark.parametrize("before", [b"", HEALTH], ids=["first", "second"])
def test_a_head_over_the_limit_is_refused(server: LiveServer, before: bytes, head: bytes) -> None:
    *_, last = exchange(server, before + head).split(b"HTTP/1.1 ")
    message = refusal(b"HTTP/1.1 " + last, 431, "head_too_large")
    assert message == "the request line and headers may have at most 65536 bytes: send less"


def test_a_long_head_within_the_limit_is_read(server: LiveServer) -> None:
    lines = b"\r\nConnection: close\r\nA: " + b"x" * (http_protocol.MAX_HEAD_BYTES - 200) + b"\r\n\r\n"
    assert exchange(server, HEALTH.replace(b"\r\n\r\n", lines)).startswith(b"HTTP/1.1 200 OK")


def test_a_refusal_waits_for_the_answers_before_it(server: LiveServer) -> None:
    for bad in (b"nonsense\r\n\r\n", CHUNKED + b"zz\r\n"):
        _, first, second, last = exchange(server, GOOD + GOOD + bad).split(b"HTTP/1.1 ")
        assert first.startswith(b"200 OK")
        assert second.startswith(b"200 OK")
        refusal(b"HTTP/1.1 " + last, 400, "invalid_http")


def test_a_stream_is_not_broken_by_what_follows_its_request(server: LiveServer) -> None:
    stream = raw_request("/v1/completions", {"prompt": "hi", "stream": True})
    _, first, last = exchange(server, stream + b"nonsense\r\n\r\n").split(b"HTTP/1.1 ")
    assert first.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    refusal(b"HTTP/1.1 " + last, 400, "invalid_http")


def test_a_bad_body_behind_its_answer_only_ends_the_connection(server: LiveServer) -> None:
    with connect(server) as client:
        client.sendall(CHUNKED.replace(b"/v1/completions", b"/nowhere"))
        assert received_as_json(client).startswith(b"HTTP/1.1 404 ")
        client.sendall(b"zz\r\n")
        assert received_until_end(client) == b""


@pytest.mark.parametrize("sent", [HEALTH[:-5], GOOD[:-5], CHUNKED + b"5\r\nhel"])
def test_half_a_request_and_an_end_is_told_so(server: LiveServer, sent: bytes) -> None:
    message = refusal(exchange(server, sent, closes_sending_side=True), 400, "invalid_http")
    assert message.endswith("the connection was closed before the request was whole")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (HEALTH, 200),
        (raw_request("/tokenize", {"prompt": "hi"}), 200),
        (raw_request("/v1/completions", {"prompt": 5}), 400),
    ],
)
def test_a_half_closed_client_gets_what_needs_no_generation(server: LiveServer, sent: bytes, status: int) -> None:
    assert exchange(server, sent, closes_sending_side=True).startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("delay", [False, True], ids=["at once", "later"])
def test_a_half_closed_client_is_told_why_its_generation_ended(
    server: LiveServer, backend: ScriptedBackend, stream: bool, delay: bool
) -> None:
    backend.script = [None]
    with connect(server) as client:
        client.sendall(raw_request("/v1/completions", {"prompt": "hi", "stream": stream}))
        if delay:
            wait_until(lambda _: backend.num_open == 1, server)
        client.shutdown(socket.SHUT_WR)
        message = refusal(received_until_end(client), 499, "client_closed_request")
    assert message.endswith("so the request was ended: keep it open for sending until all is read")


def test_a_half_closed_client_is_told_why_its_stream_ended(server: LiveServer, backend: ScriptedBackend) -> None:
    backend.script = ["some text", None]
    with connect(server) as client:
        client.sendall(raw_request("/v1/completions", {"prompt": "hi", "stream": True}))
        received_until(b"some text", client)
        client.shutdown(socket.SHUT_WR)
        last_event, end = received_until_end(client).split(b"data: ")[-1].split(b"\n\n", 1)
    assert json.loads(last_event)["error"]["code"] == "client_closed_request"
    assert end == b"\r\n0\r\n\r\n"

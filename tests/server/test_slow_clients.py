"""A client that does not send what it began does not keep its connection for ever."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from anaphora.server import connection, http_protocol
from anaphora.tokenizer.tokenizer import Tokenizer
from tests.patience import PATIENCE_S
from tests.server.live import LiveServer, serving
from tests.server.scripted_backend import ScriptedBackend

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
BODY = b'{"prompt": "hi"}'
GOOD = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
LIMIT_S = 1
"""More than a busy machine takes between a client's dial and its first bytes."""


@pytest.fixture
def server(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveServer]:
    monkeypatch.setattr(http_protocol, "HEAD_S", LIMIT_S)
    monkeypatch.setattr(connection, "BODY_S", LIMIT_S)
    with serving(backend=ScriptedBackend(Tokenizer.from_folder(tiny_model))) as server:
        yield server


def sent_and_kept_open(server: LiveServer, *parts: bytes) -> bytes:
    """What the server sends until it closes the connection, which the client never does."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as client:
        for part in parts:
            client.sendall(part)
            time.sleep(0.05)
        received = b""
        while chunk := client.recv(65536):
            received += chunk
        return received


@pytest.mark.parametrize("parts", [(), (HEAD,)], ids=["nothing", "half a head"])
def test_without_a_head_in_time_the_connection_ends(server: LiveServer, parts: tuple[bytes, ...]) -> None:
    assert sent_and_kept_open(server, *parts) == b""


def test_a_later_request_on_the_connection_has_its_own_time(server: LiveServer) -> None:
    received = sent_and_kept_open(server, GOOD, GOOD, HEAD)
    assert received.count(b"HTTP/1.1 200 OK") == 2


def test_without_a_body_in_time_there_is_an_answer_and_an_end(server: LiveServer) -> None:
    received = sent_and_kept_open(server, GOOD[:-5])
    assert received.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in received
    assert b"the body did not come within 1 s: send it faster" in received

"""The client over real sockets: what it sends, what it keeps, and what it says when nothing sensible comes back."""

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from anaphora.errors import ConfigError, TargetError
from anaphora.lab.address import BaseUrl
from anaphora.lab.http import Exchange, HttpClient
from tests.lab.fakes import Canned, Route, as_json, serving_at


class Sink:
    def __init__(self) -> None:
        self.status = 0
        self.pieces: list[tuple[int, bytes]] = []

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status

    def feed(self, ns: int, piece: bytes) -> None:
        self.pieces.append((ns, piece))

    @property
    def body(self) -> bytes:
        return b"".join(piece for _, piece in self.pieces)


def ask(route: Route, times: int = 1, **client_options: Any) -> tuple[list[Exchange], list[Sink]]:
    async def run() -> tuple[list[Exchange], list[Sink]]:
        async with serving_at({"POST /x": route}) as port:
            clock = itertools.count(1000).__next__
            client = HttpClient(BaseUrl.parse(f"127.0.0.1:{port}"), clock=clock, **client_options)
            sinks = [Sink() for _ in range(times)]
            exchanges = [await client.exchange("POST", "/x", body=b'{"a": 1}', sink=sink) for sink in sinks]
            await client.close()
            return exchanges, sinks

    return asyncio.run(run())


def test_a_connection_is_kept_and_every_piece_has_its_stamp() -> None:
    seen: list[tuple[Mapping[str, Any], Mapping[str, str]]] = []

    def route(body: Mapping[str, Any], headers: Mapping[str, str]) -> Canned:
        seen.append((body, headers))
        return Canned(writes=(b"one ", b"two ", b"three"))

    exchanges, sinks = ask(route, times=2, headers={"Authorization": "Bearer secret"})
    assert [exchange.connection_reused for exchange in exchanges] == [False, True]
    for exchange, sink in zip(exchanges, sinks, strict=True):
        assert (exchange.status, exchange.complete, sink.body) == (200, True, b"one two three")
        stamps = [ns for ns, _ in sink.pieces]
        assert exchange.sent_ns < exchange.first_byte_ns <= stamps[0] <= stamps[-1] <= exchange.end_ns
    body, headers = seen[0]
    assert body == {"a": 1}
    assert headers["authorization"] == "Bearer secret"
    assert headers["accept-encoding"] == "identity"


def test_a_kept_connection_that_was_closed_meanwhile_is_replaced() -> None:
    exchanges, _ = ask(lambda *_: Canned(writes=(b"x",), until_close=True), times=2)
    assert [exchange.connection_reused for exchange in exchanges] == [False, False]


def test_a_kept_connection_that_dies_in_silence_is_tried_once_more_on_a_fresh_one() -> None:
    answers = iter([as_json({}), Canned(cut=True, writes=()), as_json({"second": "try"})])
    exchanges, sinks = ask(lambda *_: next(answers), times=2)
    assert [exchange.connection_reused for exchange in exchanges] == [False, False]
    assert sinks[1].body == b'{"second": "try"}'
    with pytest.raises(TargetError, match=r"closed the connection without an answer: .* https:// if it speaks TLS"):
        ask(lambda *_: Canned(cut=True, writes=()))


def test_a_connection_opened_ahead_that_dies_unused_is_tried_once_more_too() -> None:
    answers = iter([Canned(cut=True, writes=()), as_json({"second": "try"})])

    async def ahead() -> tuple[int, bytes]:
        async with serving_at({"POST /x": lambda *_: next(answers)}) as port:
            client, sink = HttpClient(BaseUrl.parse(f"127.0.0.1:{port}"), clock=itertools.count().__next__), Sink()
            await client.open()
            exchange = await client.exchange("POST", "/x", sink=sink)
            await client.close()
            return exchange.status, bytes(sink.body)

    assert asyncio.run(ahead()) == (200, b'{"second": "try"}')


def test_an_answer_cut_in_the_middle_is_incomplete() -> None:
    (exchange,), (sink,) = ask(lambda *_: Canned(writes=(b"half",), cut=True))
    assert (exchange.complete, sink.body) == (False, b"half")


def test_nobody_there_too_much_and_too_late() -> None:
    async def refused() -> None:
        async with serving_at({}) as port:
            pass
        client = HttpClient(BaseUrl.parse(f"127.0.0.1:{port}"), clock=itertools.count().__next__)
        with pytest.raises(
            TargetError, match=rf"nothing answers at http://127.0.0.1:{port} \(Connection refused\): start"
        ):
            await client.exchange("GET", "/", sink=Sink())

    async def late() -> None:
        async with serving_at({"GET /": lambda *_: Canned(writes=(b"begun",), stalls=True)}) as port:
            client = HttpClient(BaseUrl.parse(f"127.0.0.1:{port}"), clock=itertools.count().__next__)
            with pytest.raises(TargetError, match=r"no complete answer within 0\.05 s"):
                await client.exchange("GET", "/", sink=Sink(), timeout_s=0.05)

    asyncio.run(refused())
    asyncio.run(late())
    with pytest.raises(TargetError, match="more than 500 bytes"):
        ask(lambda *_: Canned(writes=(b"x" * 1000,)), max_body_bytes=500)


@pytest.mark.parametrize(
    ("text", "root", "api"),
    [
        ("http://h:8000", "", "/v1"),
        ("http://h:8000/", "", "/v1"),
        ("h:8000/v1/", "", "/v1"),
        ("http://h:8000/v1/chat/completions", "", "/v1"),
        ("https://taotoken.example/api", "/api", "/api/v1"),
        ("https://taotoken.example/api/v1", "/api", "/api/v1"),
        ("https://g.example/v1beta/openai/", "/v1beta/openai", "/v1beta/openai"),
        ("https://z.example/api/paas/v4", "/api/paas/v4", "/api/paas/v4"),
    ],
)
def test_a_base_url_may_be_written_in_any_way(text: str, root: str, api: str) -> None:
    base = BaseUrl.parse(text)
    assert (base.root, base.api) == (root, api)


def test_authorities_and_urls_that_are_none() -> None:
    assert BaseUrl.parse("https://h/v1").authority == "h"
    assert str(BaseUrl.parse("http://[::1]:80/x")) == "http://[::1]/x"
    for text, message in [
        ("ftp://h", "no base URL"),
        ("http://", "no base URL"),
        ("http://h:port", "is no URL"),
        ("http://user:pass@h", "--api-key-env"),
        ("http://h/v1?key=1", "must end before '[?]key=1'"),
        ("http://h/#x", "must end before '#x'"),
    ]:
        with pytest.raises(ConfigError, match=message) as error:
            BaseUrl.parse(text)
        assert "pass@" not in str(error.value)

"""Connections over TLS with an authority of one's own, and through proxies: what is trusted, what is asked, what is
said."""

import asyncio
import contextlib
import itertools
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from anaphora.errors import ConfigError, TargetError
from anaphora.lab.address import BaseUrl
from anaphora.lab.proxy import Proxy, proxy_for
from anaphora.lab.targets.base import ChatRequest
from anaphora.lab.targets.managed import free_port
from anaphora.lab.targets.openai import OpenAITarget
from tests.lab.fakes import FakeServing, Route, openai_routes, serving_at

TLS = Path(__file__).parents[1] / "data" / "tls"
ASK = ChatRequest(messages=({"role": "user", "content": "Why?"},), max_tokens=3)


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def server_side() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "server.pem", TLS / "server.key")
    return context


async def talk(url: str, **options: Any) -> str:
    target = OpenAITarget(BaseUrl.parse(url), clock=itertools.count(1).__next__, **options)
    try:
        await target.wait_until_ready(limit_s=1)
        await target.choose_model(None)
        reply = await target.chat(ASK)
        assert reply.answer.error is None
        assert reply.connection_reused
        return reply.answer.text
    finally:
        await target.close()


def test_an_authority_of_ones_own_is_trusted_once_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> str:
        async with serving_at(openai_routes(FakeServing()), server_side()) as port:
            return await talk(f"https://localhost:{port}")

    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(TargetError, match=r"is not trusted \(.*\): name its authority's file in SSL_CERT_FILE"):
        asyncio.run(run())
    monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "authority.pem"))
    assert asyncio.run(run()) == "word0 word1 word2 "


def test_a_certificate_of_another_host_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "authority.pem"))

    async def run() -> str:
        async with serving_at(openai_routes(FakeServing()), server_side()) as port:
            return await talk(f"https://127.0.0.2:{port}")

    with pytest.raises(TargetError, match=r"not trusted|nothing answers"):
        asyncio.run(run())


def test_tls_to_a_server_that_speaks_none_is_told() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def run() -> None:
        async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
            await talk(f"https://localhost:{server.sockets[0].getsockname()[1]}")

    with pytest.raises(TargetError, match=r"TLS failed .*: write http:// if the server speaks no TLS"):
        asyncio.run(run())


@dataclass
class FakeProxy:
    """Connects every CONNECT to one port, and answers plain requests for absolute addresses from the same port."""

    port_behind: int
    answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n"
    heads: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        writers: set[asyncio.StreamWriter] = set()

        async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                while data := await reader.read(65536):
                    writer.write(data)
                    await writer.drain()
            writer.close()

        async def talk_to(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.add(writer)
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head.decode())
            if not self.answer.startswith(b"HTTP/1.1 200"):
                writer.write(self.answer)
                writer.close()
                return
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self.port_behind)
            writers.add(inner_writer)
            if head.startswith(b"CONNECT"):
                writer.write(self.answer)
            else:
                method, url, rest = head.split(b" ", 2)
                inner_writer.write(b" ".join([method, b"/" + url.split(b"/", 3)[3], rest]))
            await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

        server = await asyncio.start_server(talk_to, "127.0.0.1", 0)
        async with server:
            yield server.sockets[0].getsockname()[1]
            for writer in writers:
                writer.close()


def test_https_goes_through_a_tunnel_that_never_sees_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "authority.pem"))

    async def run() -> tuple[str, list[str]]:
        async with serving_at(openai_routes(FakeServing()), server_side()) as port:
            proxy = FakeProxy(port)
            async with proxy.serving() as proxy_port:
                monkeypatch.setenv("HTTPS_PROXY", f"http://ann:pa%20ss@127.0.0.1:{proxy_port}")
                return await talk("https://cloud.test", api_key="sk-secret-123", api_key_env="K"), proxy.heads

    text, heads = asyncio.run(run())
    assert text == "word0 word1 word2 "
    assert len(heads) == 1  # one tunnel, kept
    assert heads[0].startswith("CONNECT cloud.test:443 HTTP/1.1\r\nHost: cloud.test:443\r\n")
    assert "Proxy-Authorization: Basic YW5uOnBhIHNz\r\n" in heads[0]
    assert "sk-secret" not in heads[0]


def test_http_goes_through_a_proxy_with_the_whole_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def models(body: Mapping[str, Any], headers: Mapping[str, str]) -> Any:
        return openai_routes(FakeServing())["GET /v1/models"](body, headers)

    async def run() -> list[str]:
        routes: dict[str, Route] = {"GET /v1/models": models}
        async with serving_at(routes) as port:
            proxy = FakeProxy(port)
            async with proxy.serving() as proxy_port:
                monkeypatch.setenv("http_proxy", f"127.0.0.1:{proxy_port}")
                target = OpenAITarget(BaseUrl.parse("http://cloud.test:8000"), clock=itertools.count(1).__next__)
                assert await target.models() == [{"id": "fake-model", "max_model_len": 8192}]
                await target.close()
                return proxy.heads

    assert asyncio.run(run())[0].startswith(
        "GET http://cloud.test:8000/v1/models HTTP/1.1\r\nHost: cloud.test:8000\r\n"
    )


@pytest.mark.parametrize("answer", [b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", b""])
def test_a_proxy_that_refuses_is_told(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with FakeProxy(0, answer).serving() as port:
            monkeypatch.setenv("HTTPS_PROXY", f"http://ann:secret-word@127.0.0.1:{port}")
            await talk("https://cloud.test")

    with pytest.raises(TargetError, match=r"the proxy 127.0.0.1:\d+ does not connect to cloud.test") as error:
        asyncio.run(run())
    assert "secret-word" not in str(error.value)


def test_a_proxy_that_is_not_there_is_told_apart_from_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(TargetError, match=r"nothing answers at the proxy 127.0.0.1:\d+ .*name cloud.test in NO_PROXY"):
        asyncio.run(talk("https://cloud.test"))


@pytest.mark.parametrize(
    ("environment", "url", "expected"),
    [
        ({"HTTPS_PROXY": "http://p:3128"}, "https://h", Proxy("p", 3128)),
        ({"HTTPS_PROXY": "http://p:3128"}, "http://h", None),
        ({"ALL_PROXY": "p"}, "https://h", Proxy("p", 80)),
        ({"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "other,.h.example"}, "https://a.h.example", None),
        ({"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "*"}, "https://h", None),
        ({"HTTP_PROXY": "http://p:3128"}, "http://127.0.0.1:8000", None),
        ({"HTTP_PROXY": "http://p:3128"}, "http://localhost:8000", None),
        ({"HTTP_PROXY": "http://p:3128"}, "http://[::1]:8000", None),
    ],
)
def test_the_environment_says_which_proxy(
    environment: dict[str, str], url: str, expected: Proxy | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(BaseUrl.parse(url)) == expected


@pytest.mark.parametrize("value", ["socks5://p:1080", "https://p", "http://", "http://p:none"])
def test_what_is_no_http_proxy_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", value)
    with pytest.raises(ConfigError, match="is no http://HOST:PORT: correct it, or name h in NO_PROXY"):
        proxy_for(BaseUrl.parse("https://h"))


def test_a_name_is_asked_for_as_dns_has_it_and_what_cannot_be_one_is_refused() -> None:
    assert BaseUrl.parse("http://bücher.test:1").authority == "xn--bcher-kva.test:1"
    for name in ("a..b", f"{'a' * 64}.test"):
        with pytest.raises(ConfigError, match=r"is no URL .*: write it like"):
            BaseUrl.parse(f"http://{name}")

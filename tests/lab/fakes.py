"""The edge, scripted: a server's arithmetic without a model, as an object with its own clock and behind a real
socket."""

import asyncio
import contextlib
import itertools
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from anaphora.lab.answers import Answer
from anaphora.lab.targets.base import ChatRequest, Message, Reply, Tool
from anaphora.protocol.sse import ENCODED_DONE, encode_event
from anaphora.traces.records import CounterReading

MS = 1_000_000


@dataclass
class FakeServing:
    """A prefix cache of whole blocks over words, one word a token, and times in proportion to what is computed."""

    caching: bool = True
    honours_salt: bool = True
    shows_cached: bool = True
    has_tokenizer: bool = True
    takes_tools: bool = True
    takes_system: bool = True
    """Whether its chat template has system messages."""
    has_metrics: bool = True
    refuses_reset: str | None = None
    """Why nothing is forgotten when it is asked to forget."""
    forgets: bool = True
    """Whether a reset that is not refused is done."""
    max_model_len: int = 8192
    """Longer prompts are refused, and leave nothing in the cache."""
    block_size: int = 16
    prefill_ms: float = 2.0
    fixed_ms: float = 30.0
    decode_ms: float = 5.0
    jitter: Callable[[int], float] = lambda n: 0.0
    """Extra milliseconds of the n-th request."""
    fails: Callable[[int], str | None] = lambda n: None
    """Error of the n-th request."""
    pause_s: float = 0.0
    """Real time before an answer over a socket."""
    queried: int = 0
    cached: int = 0
    num_requests: int = 0
    num_resets: int = 0
    salts: list[str | None] = field(default_factory=list)
    _ids: dict[str, int] = field(default_factory=dict)
    _blocks: set[tuple[str, ...]] = field(default_factory=set)

    def words(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[str]:
        return (
            json.dumps(tools).split() * bool(tools)
            + [word for m in messages for word in (f"<{m['role']}>", *str(m["content"]).split())]
            + ["<assistant>"]
        )

    def token_ids(self, words: Sequence[str]) -> list[int]:
        return [self._ids.setdefault(word, len(self._ids)) for word in words]

    def serve(self, messages: Sequence[Message], salt: str | None, tools: Sequence[Tool] = ()) -> tuple[int, int]:
        """Prompt tokens and cached tokens of one request, which leaves its own blocks behind."""
        return self.serve_words(self.words(messages, tools), salt)

    def words_of(self, prompt: str | list[int]) -> list[str]:
        """The words of a bare prompt; token ids are those that this server gave."""
        if isinstance(prompt, str):
            return prompt.split()
        word_of = {token_id: word for word, token_id in self._ids.items()}
        return [word_of[token_id] for token_id in prompt]

    def serve_words(self, words: list[str], salt: str | None) -> tuple[int, int]:
        """The same for a prompt as words."""
        self.salts.append(salt)
        if not self.caching:
            return len(words), 0
        name = salt or "" if self.honours_salt else ""
        ends = range(self.block_size, len(words) + 1, self.block_size)
        hits = list(itertools.takewhile(lambda end: (name, *words[:end]) in self._blocks, ends))
        cached = hits[-1] if hits else 0
        if cached == len(words):
            cached -= self.block_size
        self._blocks.update((name, *words[:end]) for end in ends)
        self.queried += len(words)
        self.cached += cached
        return len(words), cached

    def reset(self) -> str | None:
        """Forget all prefixes, or say why not."""
        self.num_resets += 1
        if self.refuses_reset is None and self.forgets:
            self._blocks.clear()
        return self.refuses_reset

    def usage(self, num_prompt: int, num_output: int, cached: int) -> dict[str, Any]:
        details = {"cached_tokens": cached} if self.shows_cached else None
        return {"prompt_tokens": num_prompt, "completion_tokens": num_output, "prompt_tokens_details": details}


class DropsSystem(FakeServing):
    """Its chat template leaves system messages out."""

    def words(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[str]:
        return super().words([message for message in messages if message["role"] != "system"], tools)


class FakeTarget:
    """A :class:`~anaphora.lab.targets.base.Target` whose clock moves by the fake's arithmetic alone."""

    def __init__(self, serving: FakeServing) -> None:
        self.serving = serving
        self.model = "fake-model"
        self.now_ns = 1_000_000_000

    async def chat(self, request: ChatRequest) -> Reply:
        serving = self.serving
        serving.num_requests += 1
        if len(serving.words(request.messages, request.tools)) + request.max_tokens > serving.max_model_len:
            return Reply(self.now_ns, None, self.now_ns + MS, True, Answer(error="HTTP 400: too long"))
        num_prompt, cached = serving.serve(request.messages, request.cache_salt, request.tools)
        prefill_ms = (
            serving.fixed_ms + (num_prompt - cached) * serving.prefill_ms + serving.jitter(serving.num_requests)
        )
        sent = self.now_ns
        first = sent + round(prefill_ms * MS)
        end = first + round((request.max_tokens - 1) * serving.decode_ms * MS)
        self.now_ns = end + MS
        error = serving.fails(serving.num_requests)
        if request.tools and not serving.takes_tools:
            error = "HTTP 400: tools need a parser"
        if error is not None:
            return Reply(sent, None, sent + MS, True, Answer(error=error))
        answer = Answer(
            streamed=True,
            first_token_ns=first,
            first_answer_ns=first,
            last_token_ns=end,
            num_token_events=request.max_tokens,
            text="word " * request.max_tokens,
            finish_reason="length",
            usage=serving.usage(num_prompt, request.max_tokens, cached),
            saw_done=True,
        )
        return Reply(sent, first, end, True, answer)

    async def read_counters(self) -> CounterReading | None:
        serving = self.serving
        return CounterReading("fake", "tokens", serving.queried, serving.cached) if serving.has_metrics else None

    async def reset_prefix_cache(self) -> str | None:
        return self.serving.reset()

    async def cache_settings(self) -> Mapping[str, Any]:
        return {"block_size": str(self.serving.block_size), "num_gpu_blocks": "None"}

    async def count_text(self, text: str) -> int | None:
        return len(text.split()) if self.serving.has_tokenizer else None

    async def text_token_ids(self, text: str) -> list[int] | None:
        return self.serving.token_ids(text.split()) if self.serving.has_tokenizer else None

    async def chat_token_ids(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int] | None:
        serving = self.serving
        return serving.token_ids(serving.words(messages, tools)) if serving.has_tokenizer else None


@dataclass(frozen=True)
class Canned:
    """An answer as bytes. ``writes`` are sent one by one, so that a client sees their borders now and then."""

    status: int = 200
    content_type: str = "application/json"
    writes: tuple[bytes, ...] = (b"",)
    headers: tuple[str, ...] = ()
    cut: bool = False
    """Reset the connection after the writes instead of ending the answer; without writes, before its head."""
    until_close: bool = False
    """HTTP/1.0 without a length: the end of the connection ends the body."""
    stalls: bool = False
    """Keep the connection open after the writes, and say nothing more."""
    pause_s: float = 0.0


def as_json(value: Any, status: int = 200) -> Canned:
    return Canned(status, writes=(json.dumps(value).encode(),))


Route = Callable[[Mapping[str, Any], Mapping[str, str]], Canned]
"""From the request's JSON body and headers to an answer."""


@asynccontextmanager
async def serving_at(
    routes: Mapping[str, Route], tls: ssl.SSLContext | None = None, port: int = 0
) -> AsyncIterator[int]:
    """A raw HTTP/1.1 server on a port of the loopback interface, by default a free one; ``routes`` are named
    ``METHOD /path``."""

    writers: set[asyncio.StreamWriter] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode().split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                method, path, _ = first.split(" ")
                route = routes.get(f"{method} {path}", _no_such_route)
                canned = route(json.loads(body or b"{}"), headers)
                await _play(canned, writer)
                if canned.cut or canned.until_close:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", port, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]
        for writer in writers:
            writer.close()
        for writer in writers:
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


def _no_such_route(body: Mapping[str, Any], headers: Mapping[str, str]) -> Canned:
    return as_json({"error": {"message": "no such route"}}, 404)


async def _play(canned: Canned, writer: asyncio.StreamWriter) -> None:
    if canned.cut and not canned.writes:
        writer.transport.abort()
        return
    await asyncio.sleep(canned.pause_s)
    version = "HTTP/1.0" if canned.until_close else "HTTP/1.1"
    framing = [] if canned.until_close else ["Transfer-Encoding: chunked"]
    head = [f"{version} {canned.status} X", f"Content-Type: {canned.content_type}", *canned.headers, *framing, "", ""]
    writer.write("\r\n".join(head).encode())
    for piece in canned.writes:
        if piece:
            writer.write(piece if canned.until_close else b"%x\r\n%s\r\n" % (len(piece), piece))
        await writer.drain()
        await asyncio.sleep(0)
    if canned.stalls:
        return
    if canned.cut:
        writer.transport.abort()
    elif not canned.until_close:
        writer.write(b"0\r\n\r\n")
        await writer.drain()


def openai_routes(serving: FakeServing) -> dict[str, Route]:
    """The fake as an OpenAI-compatible server with vLLM's extras."""

    def models(body: Mapping[str, Any], headers: Mapping[str, str]) -> Canned:
        return as_json({"object": "list", "data": [{"id": "fake-model", "max_model_len": serving.max_model_len}]})

    def chat(body: Mapping[str, Any], headers: Mapping[str, str]) -> Canned:
        serving.num_requests += 1
        refused = _refusal(serving, body, serving.fails(serving.num_requests))
        if refused is not None:
            return refused
        num_prompt, cached = serving.serve(body["messages"], body.get("cache_salt"), body.get("tools", ()))
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": f"word{n} "} for n in range(body["max_tokens"])]
        chunks: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
        ]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
        chunks.append({"choices": [], "usage": serving.usage(num_prompt, body["max_tokens"], cached)})
        return Canned(
            content_type="text/event-stream",
            writes=(*(encode_event(json.dumps(chunk)) for chunk in chunks), ENCODED_DONE),
            pause_s=serving.pause_s,
        )

    def tokenize(body: Mapping[str, Any], headers: Mapping[str, str]) -> Canned:
        refused = _refusal(serving, body)
        if refused is not None:
            return refused
        words = serving.words(body["messages"], body.get("tools", ())) if "messages" in body else body["prompt"].split()
        return as_json({"tokens": serving.token_ids(words), "count": len(words)})

    def metrics(body: Mapping[str, Any], headers: Mapping[str, str]) -> Canned:
        text = (
            "# TYPE vllm:prefix_cache_queries counter\n"
            f'vllm:prefix_cache_queries_total{{engine="0",model_name="fake-model"}} {serving.queried}.0\n'
            "# TYPE vllm:prefix_cache_hits counter\n"
            f'vllm:prefix_cache_hits_total{{engine="0",model_name="fake-model"}} {serving.cached}.0\n'
            "# TYPE vllm:cache_config_info gauge\n"
            f'vllm:cache_config_info{{block_size="{serving.block_size}",num_gpu_blocks="4096"}} 1.0\n'
        )
        return Canned(content_type="text/plain; version=0.0.4", writes=(text.encode(),))

    routes: dict[str, Route] = {"GET /v1/models": models, "POST /v1/chat/completions": chat}
    if serving.has_tokenizer:
        routes["POST /tokenize"] = tokenize
    if serving.has_metrics:
        routes["GET /metrics"] = metrics
    return routes


def _refusal(serving: FakeServing, body: Mapping[str, Any], error: str | None = None) -> Canned | None:
    if error is not None:
        return as_json({"error": {"message": error}}, 500)
    if serving.takes_system or all(message["role"] != "system" for message in body.get("messages", ())):
        return None
    return as_json({"error": {"message": "System role not supported"}}, 400)


def completions_route(serving: FakeServing) -> Route:
    """Bare prompts, as text or as the token ids that this server gave."""

    def completions(body: Mapping[str, Any], headers: Mapping[str, str]) -> Canned:
        words = serving.words_of(body["prompt"])
        serving.num_requests += 1
        num_prompt, cached = serving.serve_words(words, body.get("cache_salt"))
        usage = serving.usage(num_prompt, body["max_tokens"], cached)
        if not body.get("stream"):
            return as_json({"choices": [{"text": "word"}], "usage": usage})
        chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "text": "word "}]} for _ in range(body["max_tokens"])]
        chunks += [{"choices": [{"index": 0, "text": "", "finish_reason": "length"}]}, {"choices": [], "usage": usage}]
        return Canned(
            content_type="text/event-stream",
            writes=(*(encode_event(json.dumps(chunk)) for chunk in chunks), ENCODED_DONE),
            pause_s=serving.pause_s,
        )

    return completions

"""Any OpenAI-compatible server: readiness, model list, chat, and, where offered, tokenizer and metrics."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anaphora.lab.address import BaseUrl
from anaphora.lab.answers import AnswerReader
from anaphora.lab.clock import Clock
from anaphora.lab.counters import MetricsText, read_counters
from anaphora.lab.dialects import OTHER, Dialect, kind_of
from anaphora.lab.targets.api import REFUSED, Api, has_api, while_loading
from anaphora.lab.targets.base import ChatRequest, Message, Reply, Tool
from anaphora.lab.targets.body import Body
from anaphora.lab.targets.model_list import Rows, chosen_model, context_length, listed_models
from anaphora.lab.targets.reset import refusal_of
from anaphora.lab.targets.server_tokenizer import ServerTokenizer
from anaphora.lab.targets.system_role import without_system
from anaphora.traces.records import CounterReading

_OK, _BAD_REQUEST, _NOT_FOUND = 200, 400, 404
_HELLO = ChatRequest(
    messages=({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}), max_tokens=1
)


class OpenAITarget:
    """One base URL and, once :meth:`choose_model` was awaited, one model behind it.

    ``dialect``: the kind of server that somebody says it is; without it :meth:`identify` finds out.
    """

    def __init__(
        self,
        base: BaseUrl,
        *,
        clock: Clock,
        api_key: str | None = None,
        api_key_env: str | None = None,
        headers: Mapping[str, str] | None = None,
        dialect: Dialect | None = None,
        request_timeout_s: float = 600.0,
    ) -> None:
        self._api = Api(base, clock=clock, api_key=api_key, api_key_env=api_key_env, headers=headers)
        self.base = base
        self.model = ""
        self.max_model_len: int | None = None
        self.api_key_env = api_key_env
        self.dialect = dialect or OTHER
        self.is_forced = dialect is not None
        self.leaves_cache_to_flag = False
        """The server was started with its cache on or off: no request says otherwise."""
        self.takes_system = True
        """Whether the model's template has system messages; if not, :meth:`_taken` puts them elsewhere."""
        self.asked_before: list[ChatRequest] = []
        """Chats that were asked to see whether it answers; what they left may be in the cache since."""
        self._timeout_s = request_timeout_s
        self._has_metrics = True
        self._tokenizer = ServerTokenizer(lambda path, body: self._api.fetch("POST", f"{self.base.root}{path}", body))
        self._is_listed = False
        self.headers = self._api.headers
        self._clock = clock

    @property
    def request_fields(self) -> dict[str, bool]:
        """What requests to this kind of server say beside the usual, so that its cache is used."""
        return {} if self.leaves_cache_to_flag else dict(self.dialect.request_fields)

    async def identify(self) -> Dialect:
        """Which kind of server this is, by what was said or else by what it tells; from then on it is spoken to so."""
        if not self.is_forced:
            metrics = await self.metrics()
            names = () if metrics is None else metrics.samples.keys()
            self.dialect = kind_of(self.base.host, await self.models() or (), names)
        return self.dialect

    async def wait_until_ready(self, *, limit_s: float, on_wait: Callable[[str], None] = lambda _: None) -> None:
        """Wait while the server says that it is loading. Raises :class:`TargetError` when it cannot be used at all."""
        await while_loading(self.base, lambda: self._api.get(f"{self.base.api}/models"), limit_s, on_wait)

    async def wait_until_answering(self, *, limit_s: float, on_wait: Callable[[str], None] = lambda _: None) -> None:
        """Wait for a first answer: some servers list the model that they still load, and refuse chats with 503. A chat
        that is refused is asked again without its system message, which some models have not."""
        answer = await while_loading(self.base, self._say_hello, limit_s, on_wait)
        if answer.status >= _BAD_REQUEST and answer.status not in (*REFUSED, _NOT_FOUND):
            self.takes_system = False
            self.takes_system = (await self._say_hello()).status != _OK
        self.asked_before.append(_HELLO)

    async def _say_hello(self) -> Body:
        body = json.dumps(self._body(_HELLO)).encode()
        return await self._api.fetch("POST", f"{self.base.api}/chat/completions", body, self._timeout_s)

    async def ask_tokenizer_for_system(self) -> None:
        """What :meth:`wait_until_answering` finds out of system messages, without a chat being asked: by what the
        server's tokenizer renders, if it has one."""
        self.takes_system = await self._tokenizer.takes_system(self.dialect.tokenizing, self.model)

    async def choose_model(self, wanted: str | None) -> None:
        """Settle on ``wanted`` or, without a wish, on the only model that the server lists."""
        rows = await self.models()
        self.take_model(chosen_model(self.base, rows, wanted), rows or ())

    def take_model(self, name: str, rows: Rows) -> None:
        """Settle on ``name``, of which ``rows``, the server's list, may say more."""
        self.model = name
        row = next((row for row in rows if row.get("id") == name), {})
        self._is_listed = bool(row)
        self.max_model_len = context_length(row)

    async def chat(self, request: ChatRequest) -> Reply:
        """See :class:`~anaphora.lab.targets.base.Target`."""
        return await self._chat({**self._body(request), "stream": True, "stream_options": {"include_usage": True}})

    async def chat_whole(self, request: ChatRequest) -> Reply:
        """The same without streaming: the answer comes in one piece, so it has no first token's time."""
        return await self._chat(self._body(request))

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        return {
            "model": self.model,
            "messages": self._taken(request.messages),
            "max_tokens": request.max_tokens,
            "temperature": 0,
            **self.request_fields,
            **({} if request.cache_salt is None else {"cache_salt": request.cache_salt}),
            **({"tools": list(request.tools)} if request.tools else {}),
        }

    def _taken(self, messages: Sequence[Message]) -> list[Message]:
        """The messages as the model takes them."""
        return list(messages) if self.takes_system else without_system(messages)

    async def _chat(self, body: Mapping[str, Any]) -> Reply:
        encoded = json.dumps(body, ensure_ascii=False).encode()
        reader = AnswerReader(masking=self._api.masking)
        exchange = await self._api.client.exchange(
            "POST", f"{self.base.api}/chat/completions", body=encoded, sink=reader, timeout_s=self._timeout_s
        )
        answer = reader.finish(complete=exchange.complete)
        if exchange.status in REFUSED:
            answer.error, answer.refused_key = self._api.refusal(exchange.status), True
        elif exchange.status == _NOT_FOUND and not self._is_listed:
            answer.error = f"{answer.error} at {self.base.api}/chat/completions: {self.base.other_try}"
        return Reply(exchange.sent_ns, exchange.first_byte_ns, exchange.end_ns, exchange.connection_reused, answer)

    async def has_api_at(self, base: BaseUrl) -> bool:
        """Whether another address of the same host has an API: it lists models, or asks for a key. No key is sent."""
        return await has_api(base, self._clock, self._timeout_s)

    async def open_connection(self) -> None:
        """Have a connection standing, so that no request pays for the handshake."""
        await self._api.client.open()

    async def read_counters(self) -> CounterReading | None:
        """See :class:`~anaphora.lab.targets.base.Target`."""
        metrics = await self.metrics()
        return None if metrics is None else read_counters(metrics, self.model, self.dialect)

    async def cache_settings(self) -> Mapping[str, Any]:
        """See :class:`~anaphora.lab.targets.base.Target`."""
        metrics = await self.metrics()
        published = {} if metrics is None else metrics.cache_config()
        return {**published, **await self._slots()}

    async def _slots(self) -> Mapping[str, Any]:
        """How many prompts a server keeps that keeps them in slots; empty for others."""
        if self.dialect.slots_path is None:
            return {}
        told = await self._api.told(f"{self.base.root}{self.dialect.slots_path}", "total_slots")
        return {} if told is None else {"num_slots": told}

    async def reset_prefix_cache(self) -> str | None:
        """See :class:`~anaphora.lab.targets.base.Target`."""
        if self.dialect.reset is None:
            return f"no way to reset the prefix cache of {self.dialect.title} is known"
        answer = await self._api.fetch("POST", f"{self.base.root}{self.dialect.reset.path}")
        return refusal_of(answer, self.dialect)

    async def count_text(self, text: str) -> int | None:
        """Tokens of a bare text; ``None`` if the server does not tokenise for others."""
        ids = await self.text_token_ids(text)
        return None if ids is None else len(ids)

    async def text_token_ids(self, text: str) -> list[int] | None:
        """Token ids of a bare text; ``None`` if the server does not tokenise for others."""
        return await self._tokenizer.text_ids(self.dialect.tokenizing, self.model, text)

    async def chat_token_ids(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int] | None:
        """Token ids of a chat as the server renders it; ``None`` if it does not say."""
        return await self._tokenizer.chat_ids(self.dialect.tokenizing, self.model, self._taken(messages), tools)

    async def version(self) -> str | None:
        """What the server says of its version at ``/version``, if it does."""
        version = await self._api.told(f"{self.base.root}/version", "version")
        return version if isinstance(version, str) else None

    async def close(self) -> None:
        await self._api.client.close()

    async def metrics(self) -> MetricsText | None:
        """The server's metrics; ``None`` if it has none, or none that can be read."""
        if not self._has_metrics:
            return None
        answer = await self._api.fetch("GET", f"{self.base.root}{self.dialect.metrics_path}")
        try:
            if answer.status == 200:
                return MetricsText.parse(answer.data.decode("utf-8", "replace"))
        except ValueError:
            pass  # a web page, or another format
        self._has_metrics = False
        return None

    async def models(self) -> list[Mapping[str, Any]] | None:
        """The models that the server lists; ``None`` if it has no such list, as some APIs have not."""
        return listed_models(self.base, await self._api.get(f"{self.base.api}/models"))

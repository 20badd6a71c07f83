"""A server with a planted cache and a clock of its own: what the probe should find is known."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from anaphora.lab.answers import Answer
from anaphora.lab.targets.base import ChatRequest, Message, Reply
from anaphora.sim.predict import CacheConfig, Replay, SimulatedRequest
from anaphora.traces.records import CounterReading
from anaphora.types import Namespace

MS = 1_000_000


class Cache(Protocol):
    """How many of the tokens come from the cache; the prompt's own stay behind."""

    def serve(self, tenant: str, ids: Sequence[int], now_s: float) -> int: ...


class CoreCache:
    """Our own cache core, as the engine runs it."""

    def __init__(self, *, num_blocks: int, block_size: int = 16, policy: str = "lru") -> None:
        self._replay = Replay(CacheConfig(num_blocks=num_blocks, block_size=block_size, eviction_policy=policy))

    def serve(self, tenant: str, ids: Sequence[int], now_s: float) -> int:
        return self._replay.run_in_sequence([SimulatedRequest(Namespace(tenant), ids)])[0].num_cached_tokens


@dataclass
class Blocks:
    """Whole blocks, least recently used first out, with what other servers have besides: a minimum in tokens, more held
    back than the last token, an end to unused prompts, or the first stored out first."""

    block_size: int = 16
    minimum: int = 0
    num_held_back_blocks: int = 0
    holds_back_last_token: bool = True
    capacity: int = 10**9
    retention_s: float = float("inf")
    first_stored_goes: bool = False
    _used: dict[int, tuple[float, int]] = field(default_factory=dict)
    """By a prefix's digest, in the order in which they would go: when it was last used, and its tokens."""

    def serve(self, tenant: str, ids: Sequence[int], now_s: float) -> int:
        keys, digest = [], hash(tenant)
        for end in range(self.block_size, len(ids) + 1, self.block_size):
            digest = hash((digest, *ids[end - self.block_size : end]))
            keys.append(digest)
        hits = 0
        for key in keys:
            if key not in self._used or now_s - self._used[key][0] > self.retention_s:
                break
            hits += 1
        self._keep(keys, hits, now_s)
        limit = (len(ids) - self.holds_back_last_token) // self.block_size
        cached = max(0, min(hits, limit) - self.num_held_back_blocks) * self.block_size
        return cached if cached >= self.minimum else 0

    def _keep(self, keys: Sequence[int], num_hits: int, now_s: float) -> None:
        for number in reversed(range(len(keys))):  # tail first: the end of a prompt goes before its beginning
            key = keys[number]
            if not (self.first_stored_goes and number < num_hits):
                self._used.pop(key, None)
            self._used[key] = (now_s, number)
        while len(self._used) * self.block_size > self.capacity:
            del self._used[next(iter(self._used))]


@dataclass
class Slots:
    """As llama.cpp: so many slots, each with its latest prompt, reused token by token from its beginning; a slot is
    taken for what it shares only if that is a large enough share of the prompt."""

    num_slots: int = 4
    least_share: float = 0.1
    _slots: list[Sequence[int]] = field(default_factory=list)

    def serve(self, tenant: str, ids: Sequence[int], now_s: float) -> int:
        shared = [_num_common(ids, held) for held in self._slots]
        best = max(range(len(shared)), key=lambda n: shared[n], default=None)
        if best is None or shared[best] <= self.least_share * len(ids):
            best = 0 if len(self._slots) == self.num_slots else None
        cached = 0 if best is None else min(shared[best], len(ids) - 1)
        if best is not None:
            del self._slots[best]
        self._slots.append(ids)
        return cached


class Off:
    """No cache."""

    def serve(self, tenant: str, ids: Sequence[int], now_s: float) -> int:
        return 0


def _num_common(one: Sequence[int], other: Sequence[int]) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@dataclass
class PlantedServer:
    """``tells``: who says what was cached: ``usage``, ``usage unless 0``, ``metrics`` or ``nothing``. The chat template
    opens with ``head`` tokens. ``noise``: the spread of a time's logarithm."""

    cache: Cache
    tells: str = "usage"
    head: int = 4
    honours_salt: bool = True
    refuses_salt: bool = False
    shares_keys: bool = False
    has_tokenizer: bool = True
    tokens_per_word: int = 1
    max_model_len: int = 10**6
    fixed_ms: float = 20.0
    token_ms: float = 1.0
    noise: float = 0.0
    seed: int = 0
    loses: float = 0.0
    """A share of the requests comes to another server, which has nothing."""
    now_ns: int = 10**9
    queried: int = 0
    cached: int = 0
    foreign: int = 0
    _ids: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def token_ids(self, messages: Sequence[Message]) -> list[int]:
        words = [f"<head{n}>" for n in range(self.head)]
        for message in messages:
            words += [f"{word}/{n}" for word in message["content"].split() for n in range(self.tokens_per_word)]
            words += ["<end>"]
        return [self.token_id(word) for word in words]

    def token_id(self, word: str) -> int:
        return self._ids.setdefault(word, len(self._ids))

    def answer(self, key: str, request: ChatRequest) -> Answer | tuple[float, dict[str, Any]]:
        ids = self.token_ids(request.messages)
        if request.cache_salt is not None and self.refuses_salt:
            return Answer(error="HTTP 400: unknown field cache_salt")
        if len(ids) + request.max_tokens > self.max_model_len:
            return Answer(error=f"HTTP 400: the prompt has {len(ids)} tokens, more than {self.max_model_len}")
        salt = request.cache_salt or "" if self.honours_salt else ""
        tenant = f"{'' if self.shares_keys else key}/{salt}"
        is_lost = self._random.random() < self.loses
        cached = 0 if is_lost else self.cache.serve(tenant, ids, self.now_ns / 1e9)
        self.queried += len(ids) + self.foreign
        self.cached += cached
        ms = self.fixed_ms + self.token_ms * (len(ids) - cached)
        told = self.tells == "usage" or (self.tells == "usage unless 0" and cached)
        details = {"prompt_tokens_details": {"cached_tokens": cached}} if told else {}
        usage = {"prompt_tokens": len(ids), "completion_tokens": 1, **details}
        return ms * self._random.lognormvariate(0, self.noise), usage

    async def pause(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)

    def clock(self) -> int:
        return self.now_ns


@dataclass
class PlantedTarget:
    """A client of it, with one key."""

    server: PlantedServer
    key: str = "first"

    async def chat(self, request: ChatRequest) -> Reply:
        server, sent = self.server, self.server.now_ns
        found = server.answer(self.key, request)
        if isinstance(found, Answer):
            return Reply(sent, sent, sent, True, found)
        ms, usage = found
        server.now_ns = end = sent + round(ms * MS)
        answer = Answer(streamed=True, first_token_ns=end, num_token_events=1, text="x", usage=usage, saw_done=True)
        return Reply(sent, end, end, True, answer)

    async def read_counters(self) -> CounterReading | None:
        if self.server.tells != "metrics":
            return None
        return CounterReading("planted", "tokens", self.server.queried, self.server.cached)

    async def reset_prefix_cache(self) -> str | None:
        return "not here"

    async def cache_settings(self) -> Mapping[str, Any]:
        return {}

    async def count_text(self, text: str) -> int | None:
        return len(text.split()) * self.server.tokens_per_word if self.server.has_tokenizer else None

    async def text_token_ids(self, text: str) -> list[int] | None:
        server = self.server
        return [server.token_id(word) for word in text.split()] if server.has_tokenizer else None

    async def chat_token_ids(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[int] | None:
        return self.server.token_ids(messages) if self.server.has_tokenizer else None

"""Random operations on the cache core against a naive model: sets of exact prefixes, lists, and plain rules."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kvcache.places import places

from anaphora.errors import PinError
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.events import BlockRemoved, BlockStored, CacheEvent
from anaphora.kvcache.ledger import Ledger, Reason
from anaphora.kvcache.manager import KVCacheManager
from anaphora.kvcache.match import Match
from anaphora.kvcache.token_blocks import TokenBlocks, pack, unpack
from anaphora.types import Namespace, RequestId

Key = tuple[str, tuple[int, ...]]  # a namespace and all tokens of a block-aligned prefix
Entry = Key | int  # what a naive block table holds: a prefix that can be shared, or a private block

BLOCK = 2
NAMESPACES = st.sampled_from([Namespace(""), Namespace(""), Namespace("a"), Namespace("b")])
PROMPTS = st.builds(
    lambda shared, cut, rest: (shared[:cut] + rest) or [0],
    st.sampled_from([[0] * 8, [0, 0, 1, 1, 0, 1, 0, 1]]),
    st.sampled_from([0, 2, 3, 4, 6, 8]),
    st.lists(st.integers(0, 1), max_size=4),
)


@dataclass
class NaiveTable:
    namespace: str
    tokens: list[int]
    entries: list[Entry] = field(default_factory=list)
    num_indexed: int = 0
    num_computed: int = 0
    num_scheduled: int = 0
    step: int = -1


class NaiveCache:
    """What the core promises, said as plainly as possible and without any regard to speed."""

    def __init__(self, config: CacheConfig) -> None:
        self.config = config
        self.tables: dict[str, NaiveTable] = {}
        self.cached: set[Key] = set()
        self.pending: dict[Key, tuple[str, int]] = {}
        self.lru: list[Key] = []
        self.evicted: dict[str, list[Key]] = {}
        self.num_evicted: dict[str, int] = {}
        self.evicted_at: dict[Key, int] = {}
        self.prompts: OrderedDict[str, list[tuple[int, ...]]] = OrderedDict()
        self.pins: dict[str, list[Key]] = {}
        self.num_own = 0

    def keys(self, namespace: str, tokens: list[int]) -> list[Key]:
        return [(namespace, tuple(tokens[:end])) for end in range(BLOCK, len(tokens) + 1, BLOCK)]

    def usable(self, key: Key, step: int | None) -> bool:
        return key in self.cached or (key in self.pending and self.pending[key][1] == step)

    def match(self, namespace: str, tokens: list[int], step: int | None) -> list[Key]:
        run: list[Key] = []
        for key in self.keys(namespace, tokens)[: (len(tokens) - 1) // BLOCK]:
            if not self.usable(key, step):
                break
            run.append(key)
        return run

    @property
    def num_blank(self) -> int:
        held = {entry for table in self.tables.values() for entry in table.entries}
        held |= {key for keys in self.pins.values() for key in keys}
        return self.config.num_blocks - len(held) - len(self.lru)

    def take(self, num: int) -> list[Entry]:
        for _ in range(num - self.num_blank):
            key = self.lru.pop(0)
            self.cached.remove(key)
            self._remember_eviction(key)
        taken = list(range(self.num_own, self.num_own + num))
        self.num_own += num
        return [*taken]

    def _remember_eviction(self, key: Key) -> None:
        namespace = key[0]
        if namespace not in self.prompts:
            return
        self.num_evicted[namespace] += 1
        self.evicted[namespace].append(key)
        self.evicted_at[key] = self.num_evicted[namespace]
        del self.evicted[namespace][: -self.config.max_remembered_evictions]

    def admit(self, name: str, namespace: str, tokens: list[int], run: list[Key], num: int, step: int) -> bool:
        need = -(-num // BLOCK) - len(run)
        if need > self.num_blank + len([key for key in self.lru if key not in run]):
            return False
        self.lru = [key for key in self.lru if key not in run]
        table = NaiveTable(namespace, tokens, [*run], len(run), len(run) * BLOCK, num, step)
        self.tables[name] = table
        table.entries += self.take(need)
        self._publish(name, table, num, step)
        return True

    def allocate(self, name: str, num: int, step: int) -> bool:
        table = self.tables[name]
        need = max(0, -(-num // BLOCK) - len(table.entries))
        if need > self.num_blank + len(self.lru):
            return False
        taken = self.take(need)
        table.entries += taken
        table.num_scheduled, table.step = num, step
        self._publish(name, table, num, step)
        return True

    def _publish(self, name: str, table: NaiveTable, num: int, step: int) -> None:
        keys = self.keys(table.namespace, table.tokens)
        for position in range(table.num_indexed, num // BLOCK):
            if keys[position] in self.cached or keys[position] in self.pending:
                break
            self.pending[keys[position]] = (name, step)
            table.entries[position] = keys[position]

    def commit(self, name: str) -> None:
        table = self.tables[name]
        for key in self.keys(table.namespace, table.tokens)[table.num_indexed : table.num_scheduled // BLOCK]:
            if key in self.pending and self.pending[key][0] != name:
                break
            self.pending.pop(key, None)
            if key in self.lru:
                self.lru.remove(key)
            if key not in self.cached and key in self.evicted.get(table.namespace, []):
                self.evicted[table.namespace].remove(key)
            self.cached.add(key)
            table.entries[table.num_indexed] = key
            table.num_indexed += 1
        table.num_computed = table.num_scheduled

    def withdraw(self, name: str) -> None:
        table = self.tables[name]
        for position, entry in enumerate(table.entries):
            if not isinstance(entry, int) and self.pending.get(entry, ("", 0))[0] == name:
                del self.pending[entry]
                table.entries[position] = self.num_own
                self.num_own += 1
        table.num_scheduled = table.num_computed

    def free(self, name: str) -> None:
        self.withdraw(name)
        self._release(self.tables.pop(name).entries)

    def _release(self, entries: list[Entry]) -> None:
        holders: list[Any] = [*(table.entries for table in self.tables.values()), *self.pins.values()]
        for entry in reversed(entries):
            if not isinstance(entry, int) and not any(entry in held for held in holders):
                self.lru.append(entry)

    def pin(self, name: str, namespace: str, tokens: list[int]) -> bool:
        keys = self.keys(namespace, tokens)
        run = keys[: next((i for i, key in enumerate(keys) if key not in self.cached), len(keys))]
        others = {key for other, held in self.pins.items() if other != name for key in held}
        if not run or len(others | set(run)) > self.config.num_blocks // 2:
            return False
        self.lru = [key for key in self.lru if key not in run]
        replaced = self.pins.pop(name, [])
        self.pins[name] = run
        self._release([*replaced])
        return True

    def unpin(self, name: str) -> bool:
        there = name in self.pins
        self._release([*self.pins.pop(name, [])])
        return there

    def dependents(self, name: str) -> list[str]:
        mine = {key for key, (owner, _) in self.pending.items() if owner == name}
        return [other for other, table in self.tables.items() if other != name and mine & set(table.entries)]

    def remember(self, namespace: str, tokens: list[int]) -> None:
        prompts = self.prompts.setdefault(namespace, [])
        self.prompts.move_to_end(namespace)
        self.num_evicted.setdefault(namespace, 0)
        self.evicted.setdefault(namespace, [])
        if tuple(tokens) in prompts:
            prompts.remove(tuple(tokens))
        prompts.append(tuple(tokens))
        del prompts[: -self.config.max_remembered_prompts]
        if len(self.prompts) > self.config.max_remembered_namespaces:
            oldest, _ = self.prompts.popitem(last=False)
            del self.evicted[oldest], self.num_evicted[oldest]

    def reset(self) -> None:
        self.__init__(self.config)  # type: ignore[misc]

    def counts(self, namespace: str, tokens: list[int], step: int | None) -> dict[Reason, int]:
        counts = dict.fromkeys(Reason, 0)
        num_matched = len(self.match(namespace, tokens, step))
        parted = self.parting(namespace, tokens)
        for position, key in enumerate(self.keys(namespace, tokens)):
            counts[self._reason(position, key, num_matched, parted, step)] += BLOCK
        counts[Reason.TAIL] = len(tokens) % BLOCK
        return {reason: count for reason, count in counts.items() if count}

    def _reason(self, position: int, key: Key, num_matched: int, parted: range, step: int | None) -> Reason:
        namespace, prefix = key
        if position < num_matched:
            return Reason.REUSED_DEVICE
        if self.usable(key, step):
            return Reason.LAST_TOKEN
        if key in self.pending or any(key in self.keys(t.namespace, t.tokens) for t in self.tables.values()):
            return Reason.IN_FLIGHT
        if key in self.evicted.get(namespace, []):
            return Reason.EVICTED
        if any(other != namespace and tokens == prefix for other, tokens in self.cached):
            return Reason.ISOLATED
        return Reason.DIVERGED if position in parted else Reason.NEW

    def parting(self, namespace: str, tokens: list[int]) -> range:
        """Blocks shared with the nearest earlier prompt had the two not parted."""
        packed = pack(tokens).tobytes()
        earlier = [pack(prompt).tobytes() for prompt in self.prompts.get(namespace, [])]
        smaller, greater = [p for p in earlier if p < packed], [p for p in earlier if p >= packed]
        neighbours = ([max(smaller)] if smaller else []) + ([min(greater)] if greater else [])
        nearest = max(((self._common(tokens, unpack(p)), len(p), p) for p in neighbours), default=None)
        if nearest is None or nearest[0] in (0, len(tokens), len(nearest[2]) // 4):
            return range(0)
        return range(nearest[0] // BLOCK, len(nearest[2]) // 4 // BLOCK)

    @staticmethod
    def _common(a: list[int], b: tuple[int, ...]) -> int:
        return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


class World:
    """The core and the naive cache side by side. Steps overlap more freely than the scheduler lets them."""

    def __init__(self, config: CacheConfig) -> None:
        self.listed: dict[bytes, int] = {}
        self.cache = KVCacheManager(config, listener=self.listen)
        self.naive = NaiveCache(config)
        self.step = 0
        self.num_requests = 0
        self.num_evicted = 0

    def listen(self, event: CacheEvent) -> None:
        if isinstance(event, BlockStored):
            assert event.key not in self.listed
            self.listed[event.key] = event.block_id
        elif isinstance(event, BlockRemoved):
            assert self.listed.pop(event.key) == event.block_id
            self.num_evicted += 1
        else:
            self.listed.clear()

    # -- what can happen ---------------------------------------------------------------------------------------------

    def admit(self, namespace: Namespace, tokens: list[int], lookup: bool, chunk: int) -> None:
        """A request computes the first ``chunk`` tokens after what it matches."""
        name = RequestId(f"r{self.num_requests}")
        self.num_requests += 1
        packed = TokenBlocks(tokens, BLOCK)
        match = self.cache.match(namespace, packed, lookup=lookup, step=self.step)
        run = self.naive.match(namespace, tokens, self.step) if lookup else []
        assert self.keys_of(match) == run
        self.compare(self.cache.explain(match), namespace, tokens, lookup, self.step)
        num = min(match.num_cached_tokens + chunk, len(tokens))
        fits = self.cache.fits(match, num)
        table = self.cache.admit(name, match, num, step=self.step)
        assert fits is (table is not None)
        assert fits is self.naive.admit(name, namespace, list(tokens), run, num, self.step)
        if table is not None:
            self.cache.remember_prompt(namespace, packed.to_bytes(), name)
            self.naive.remember(namespace, tokens)

    def serve(self, namespace: Namespace, tokens: list[int]) -> None:
        """A request from its beginning to its end in a step of its own, if there is room for it."""
        self.step += 1
        name = RequestId(f"r{self.num_requests}")
        self.admit(namespace, tokens, True, len(tokens))
        if name in self.cache.tables:
            self.cache.commit(name, len(tokens))
            self.naive.commit(name)
            if not self.naive.dependents(name):
                self.cache.free(name)
                self.naive.free(name)

    def ask(self, namespace: Namespace, tokens: list[int]) -> None:
        match = self.cache.match(namespace, TokenBlocks(tokens, BLOCK))
        assert self.keys_of(match) == self.naive.match(namespace, tokens, None)
        self.compare(self.cache.explain(match), namespace, tokens, True, None)

    def allocate(self, number: int, chunk: int, token: int) -> None:
        """A request that rests goes on: with the rest of its prompt, or with one more token."""
        resting = [name for name, table in self.naive.tables.items() if table.num_scheduled == table.num_computed]
        if not resting:
            return
        name = resting[number % len(resting)]
        table = self.naive.tables[name]
        if table.num_computed == len(table.tokens):
            table.tokens.append(token)
            self.cache.tables[RequestId(name)].tokens.append(token)
        num = min(table.num_computed + chunk, len(table.tokens))
        there = self.cache.allocate(RequestId(name), num, step=self.step) is not None
        assert there is self.naive.allocate(name, num, self.step)

    def take_in(self) -> None:
        """The oldest step that is still open has succeeded: its requests commit in the order of their admission."""
        moving = self.moving()
        oldest = min((self.naive.tables[name].step for name in moving), default=0)
        for name in moving:
            if self.naive.tables[name].step == oldest:
                self.cache.commit(RequestId(name), self.naive.tables[name].num_scheduled)
                self.naive.commit(name)
        self.step += 1

    def withdraw(self, number: int) -> None:
        if moving := self.moving():
            name = moving[number % len(moving)]
            self.free_dependents(name)
            self.cache.withdraw(RequestId(name))
            self.naive.withdraw(name)

    def free(self, number: int) -> None:
        if names := list(self.naive.tables):
            name = names[number % len(names)]
            self.free_dependents(name)
            self.cache.free(RequestId(name))
            self.naive.free(name)

    def next_step(self) -> None:
        self.step += 1

    def pin(self, name: str, namespace: Namespace, tokens: list[int]) -> None:
        try:
            self.cache.pins.add(name, namespace, TokenBlocks(tokens, BLOCK), now_s=0)
            is_pinned = True
        except PinError:
            is_pinned = False
        assert is_pinned is self.naive.pin(name, namespace, tokens)

    def unpin(self, name: str) -> None:
        assert self.cache.pins.remove(name) is self.naive.unpin(name)

    def reset(self) -> None:
        was_reset = self.cache.reset()
        assert was_reset is not bool(self.naive.tables)
        if was_reset:
            self.naive.reset()

    def moving(self) -> list[str]:
        return [name for name, table in self.naive.tables.items() if table.num_scheduled > table.num_computed]

    def free_dependents(self, name: str) -> None:
        dependents = self.naive.dependents(name)
        assert list(self.cache.dependents(RequestId(name))) == dependents
        for other in reversed(dependents):
            self.cache.free(RequestId(other))
            self.naive.free(other)

    # -- what must hold ----------------------------------------------------------------------------------------------

    def compare(self, ledger: Ledger, namespace: str, tokens: list[int], lookup: bool, step: int | None) -> None:
        expected = self.naive.counts(namespace, tokens, step) if lookup else {Reason.BYPASSED: len(tokens)}
        assert ledger.counts == expected
        alone = ledger.for_tenant().counts
        assert Reason.ISOLATED not in alone
        if lookup:
            everybody, self.naive.cached = self.naive.cached, {key for key in self.naive.cached if key[0] == namespace}
            assert alone == self.naive.counts(namespace, tokens, step), "a tenant's view depends on others"
            self.naive.cached = everybody

    def check_books(self) -> None:
        self.cache.check_integrity()
        pool, naive = self.cache.pool, self.naive
        where = places(self.cache)
        assert {place.key for place in where.values() if place.extent.owner is None} == naive.cached
        assert len(self.listed) == len(naive.cached)
        assert [where[i].key for i in pool.eviction_order()] == naive.lru
        assert pool.num_blank == naive.num_blank
        assert self.cache.usage == 1 - (naive.num_blank + len(naive.lru)) / naive.config.num_blocks
        assert self.cache.stats.num_evicted_blocks == self.num_evicted
        for name, table in naive.tables.items():
            ids = self.cache.block_ids(RequestId(name))
            shared = [None if isinstance(entry, int) else entry for entry in table.entries]
            assert [where[i].key if i in where else None for i in ids] == shared

    def keys_of(self, match: Match) -> list[Key]:
        where = places(self.cache)
        return [where[block_id].key for block_id in match.block_ids]


CONFIGS = st.builds(
    CacheConfig,
    num_blocks=st.sampled_from([1, 4, 5, 6, 8, 12]),
    block_size=st.just(BLOCK),
    max_remembered_evictions=st.sampled_from([1, 3, 20]),
    max_remembered_prompts=st.sampled_from([1, 2, 9]),
    max_remembered_namespaces=st.sampled_from([1, 3, 3]),
)
NUMBERS = st.integers(0, 3)
CHUNKS = st.sampled_from([1, 3, 9])
LOOKUPS = st.sampled_from([True, True, True, False])
ADMIT = st.tuples(st.just("admit"), NAMESPACES, PROMPTS, LOOKUPS, CHUNKS)
SERVE = st.tuples(st.just("serve"), NAMESPACES, PROMPTS)
ALLOCATE = st.tuples(st.just("allocate"), NUMBERS, CHUNKS, st.integers(0, 1))
TAKE_IN = st.tuples(st.just("take_in"))
FREE = st.tuples(st.just("free"), NUMBERS)
OPERATIONS = st.lists(
    st.one_of(
        *(ADMIT, ADMIT, SERVE, SERVE, SERVE, ALLOCATE, TAKE_IN, TAKE_IN, FREE),
        st.tuples(st.just("ask"), NAMESPACES, PROMPTS),
        st.tuples(st.just("withdraw"), NUMBERS),
        st.tuples(st.just("pin"), st.sampled_from(["p", "q"]), NAMESPACES, PROMPTS),
        st.tuples(st.just("unpin"), st.sampled_from(["p", "q"])),
        st.tuples(st.just("next_step")),
        st.tuples(st.just("reset")),
    ),
    min_size=15,
    max_size=40,
)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(CONFIGS, OPERATIONS)
def test_the_core_does_what_the_naive_cache_does(config: CacheConfig, operations: list[tuple[Any, ...]]) -> None:
    world = World(config)
    for name, *arguments in operations:
        getattr(world, name)(*arguments)
        world.check_books()

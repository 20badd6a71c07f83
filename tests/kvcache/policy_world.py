"""The core under any eviction policy beside the naive cache, seen through the public interface alone.

Which block goes is the policy's affair: the naive cache takes the victims from the events, and checks that no request
held them, that nothing continued them, and that not one too many went. All else it knows by itself.
"""

import random
from collections.abc import Callable, Sequence

from tests.kvcache.test_manager_random import BLOCK, Entry, Key, NaiveCache

from anaphora.errors import PinError
from anaphora.kvcache.block_key import ROOT_KEY, namespace_key
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.events import BlockRemoved, BlockStored, CacheEvent
from anaphora.kvcache.ledger import Ledger, Reason
from anaphora.kvcache.manager import KVCacheManager
from anaphora.kvcache.token_blocks import TokenBlocks, unpack
from anaphora.types import BlockId, BlockKey, Namespace, RequestId

NAMESPACES = tuple(Namespace(name) for name in ("", "a", "b"))
BEGINNINGS = ((0,) * 10, (0, 0, 1, 1, 0, 1, 0, 1, 1, 1))
CUTS = (0, 2, 3, 4, 6, 8, 10)
CHUNKS = (1, 3, 9)


class Mirror:
    """What a listener knows of the cache from its events, and nothing else."""

    def __init__(self, namespaces: Sequence[Namespace]) -> None:
        self.blocks: dict[Key, BlockId] = {}
        self.removed: list[Key] = []
        self.num_events = 0
        self._roots: dict[BlockKey, Key] = {namespace_key(ROOT_KEY, name): (name, ()) for name in namespaces}
        self._keys = dict(self._roots)

    def listen(self, event: CacheEvent) -> None:
        assert event.sequence_number == self.num_events
        self.num_events += 1
        if isinstance(event, BlockStored):
            namespace, tokens = self._keys[event.parent_key]
            key = self._keys[event.key] = (namespace, (*tokens, *unpack(event.tokens)))
            assert key not in self.blocks, "stored twice"
            assert len(tokens) == 0 or (namespace, tokens) in self.blocks, "a continuation without beginning"
            self.blocks[key] = event.block_id
        elif isinstance(event, BlockRemoved):
            key = self._keys[event.key]
            assert self.blocks.pop(key) == event.block_id
            self.removed.append(key)
        else:
            self.blocks.clear()
            self._keys = dict(self._roots)


class ObedientCache(NaiveCache):
    """Evicts what the core has evicted, if that was allowed. ``lru`` is a list without order here."""

    def __init__(self, config: CacheConfig, mirror: Mirror) -> None:
        super().__init__(config)
        self._mirror = mirror

    def take(self, num: int) -> list[Entry]:
        victims, self._mirror.removed = self._mirror.removed, []
        assert len(victims) == max(0, num - self.num_blank), "evicted more or fewer than needed"
        for key in victims:
            assert key in self.lru, "a block that a request holds was evicted"
            self.lru.remove(key)
            self.cached.remove(key)
            assert not any(is_continued(key, other) for other in self.cached), "a beginning went before its end"
            self._remember_eviction(key)
        return super().take(num)


def is_continued(key: Key, other: Key) -> bool:
    """Whether ``other`` begins with all of ``key``."""
    return key[0] == other[0] and other[1][: len(key[1])] == key[1]


class PolicyWorld:
    """Both caches side by side. Every operation may come at any time: what cannot be done is left out."""

    def __init__(self, config: CacheConfig) -> None:
        self.mirror = Mirror(NAMESPACES)
        self.cache = KVCacheManager(config, listener=self.mirror.listen)
        self.naive: NaiveCache = ObedientCache(config, self.mirror)
        self.step = 0
        self.num_requests = 0
        self.num_resets = 0
        self.num_pins = 0

    # -- what can happen ---------------------------------------------------------------------------------------------

    def admit(self, namespace: Namespace, tokens: Sequence[int], lookup: bool, chunk: int) -> RequestId:
        """A request computes the first ``chunk`` tokens after what it finds."""
        self.num_requests += 1
        name = RequestId(f"r{self.num_requests}")
        packed, plain = TokenBlocks(tokens, BLOCK), list(tokens)
        match = self.cache.match(namespace, packed, lookup=lookup, step=self.step)
        run = self.naive.match(namespace, plain, self.step) if lookup else []
        assert match.num_cached_tokens == len(run) * BLOCK
        self._compare(self.cache.explain(match), namespace, plain, lookup)
        num_tokens = min(match.num_cached_tokens + chunk, len(tokens))
        is_there = self.cache.admit(name, match, num_tokens, step=self.step) is not None
        assert is_there is self.naive.admit(name, namespace, plain, run, num_tokens, self.step)
        if is_there:
            self.cache.remember_prompt(namespace, packed.to_bytes(), name)
            self.naive.remember(namespace, plain)
        return name

    def serve(self, namespace: Namespace, tokens: Sequence[int]) -> None:
        """A request from its beginning to its end in a step of its own, if there is room for it."""
        self.step += 1
        name = self.admit(namespace, tokens, True, len(tokens))
        if name in self.naive.tables:
            self._commit(name)
            self._free(name)

    def allocate(self, number: int, chunk: int, token: int) -> None:
        """A request that rests goes on, with its prompt or one more token; without room it is preempted."""
        resting = [name for name, table in self.naive.tables.items() if table.num_scheduled == table.num_computed]
        if not resting:
            return
        name = resting[number % len(resting)]
        table = self.naive.tables[name]
        if table.num_computed == len(table.tokens):
            table.tokens.append(token)
            self.cache.tables[RequestId(name)].tokens.append(token)
        num_tokens = min(table.num_computed + chunk, len(table.tokens))
        is_there = self.cache.allocate(RequestId(name), num_tokens, step=self.step) is not None
        assert is_there is self.naive.allocate(name, num_tokens, self.step)
        if not is_there:
            self._free(name)

    def take_in(self) -> None:
        """The oldest step that is still open has succeeded."""
        moving = self._moving()
        oldest = min((self.naive.tables[name].step for name in moving), default=0)
        for name in moving:
            if self.naive.tables[name].step == oldest:
                self._commit(name)
        self.step += 1

    def withdraw(self, number: int) -> None:
        """The step of a request has failed: who depends on it goes, and who came in that step by the blocks of others.

        The latter is the scheduler's rule: what was admitted in a failed step waits again.
        """
        if moving := self._moving():
            name = moving[number % len(moving)]
            self._free_dependents(name)
            if any(name in self.naive.dependents(other) for other in self.naive.tables):
                self._free(name)
            else:
                self.cache.withdraw(RequestId(name))
                self.naive.withdraw(name)

    def free(self, number: int) -> None:
        """A request goes, in whatever state it is."""
        if names := list(self.naive.tables):
            self._free(names[number % len(names)])

    def pin(self, name: str, namespace: Namespace, tokens: Sequence[int]) -> None:
        """What is cached of a prefix is pinned, in place of the pin of that name; refused if it is too much."""
        try:
            self.cache.pins.add(name, namespace, TokenBlocks(tokens, BLOCK), now_s=0)
            is_pinned = True
        except PinError:
            is_pinned = False
        assert is_pinned is self.naive.pin(name, namespace, list(tokens))
        self.num_pins += is_pinned

    def unpin(self, name: str) -> None:
        """A pin goes, if it is there."""
        assert self.cache.pins.remove(name) is self.naive.unpin(name)

    def next_step(self) -> None:
        """A step begins while others are still open."""
        self.step += 1

    def reset(self) -> None:
        """Refused while any request holds blocks."""
        was_reset = self.cache.reset()
        assert was_reset is not bool(self.naive.tables)
        if was_reset:
            self.naive = ObedientCache(self.naive.config, self.mirror)
            self.num_resets += 1

    def stop_all(self) -> None:
        """Everybody goes, so that a reset can come."""
        for name in reversed(list(self.naive.tables)):
            if name in self.naive.tables:
                self._free(name)

    # -- what must hold ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Books, mirror and block tables agree with the naive cache."""
        self.cache.check_integrity()
        naive, blocks = self.naive, self.mirror.blocks
        assert set(blocks) == naive.cached
        assert len(set(blocks.values())) == len(blocks), "two prefixes in one block"
        assert not self.mirror.removed, "evicted without need"
        assert self.cache.usage == 1 - (naive.num_blank + len(naive.lru)) / naive.config.num_blocks
        for name, table in naive.tables.items():
            ids = self.cache.block_ids(RequestId(name))
            assert len(ids) == len(table.entries)
            for block_id, entry in zip(ids, table.entries, strict=True):
                if not isinstance(entry, int) and entry in blocks:
                    assert block_id == blocks[entry]

    def _compare(self, ledger: Ledger, namespace: Namespace, tokens: list[int], lookup: bool) -> None:
        naive = self.naive
        expected = naive.counts(namespace, tokens, self.step) if lookup else {Reason.BYPASSED: len(tokens)}
        assert ledger.counts == expected
        everybody, naive.cached = naive.cached, {key for key in naive.cached if key[0] == namespace}
        alone = naive.counts(namespace, tokens, self.step) if lookup else expected
        naive.cached = everybody
        assert ledger.for_tenant().counts == alone, "a tenant's view depends on others"

    # -- inside ------------------------------------------------------------------------------------------------------

    def _moving(self) -> list[str]:
        return [name for name, table in self.naive.tables.items() if table.num_scheduled > table.num_computed]

    def _commit(self, name: str) -> None:
        self.cache.commit(RequestId(name), self.naive.tables[name].num_scheduled)
        self.naive.commit(name)

    def _free(self, name: str) -> None:
        self._free_dependents(name)
        self.cache.free(RequestId(name))
        self.naive.free(name)

    def _free_dependents(self, name: str) -> None:
        dependents = self.naive.dependents(name)
        assert list(self.cache.dependents(RequestId(name))) == dependents
        for other in reversed(dependents):
            self.cache.free(RequestId(other))
            self.naive.free(other)


def random_config(rng: random.Random, policy: str) -> CacheConfig:
    """A small pool, so that there is always something to evict."""
    return CacheConfig(
        num_blocks=rng.choice((4, 6, 8, 12, 20)),
        block_size=BLOCK,
        eviction_policy=policy,
        max_remembered_evictions=rng.choice((1, 3, 20)),
        max_remembered_prompts=rng.choice((1, 2, 9)),
        max_remembered_namespaces=rng.choice((1, 3, 3)),
    )


def random_prompt(rng: random.Random) -> tuple[int, ...]:
    """A beginning that others share, cut off at or beside a block border, and an end."""
    beginning = rng.choice(BEGINNINGS)[: rng.choice(CUTS)]
    return (*beginning, *(rng.randrange(2) for _ in range(rng.randint(1, 4))))


def random_operation(rng: random.Random, world: PolicyWorld) -> Callable[[], object]:
    """One operation with its arguments, ready to be called."""
    namespace, prompt = rng.choice(NAMESPACES), random_prompt(rng)
    number, chunk = rng.randrange(4), rng.choice(CHUNKS)
    draw = rng.randrange(100)
    for limit, operation in (
        (18, lambda: world.admit(namespace, prompt, rng.random() < 0.8, chunk)),
        (42, lambda: world.serve(namespace, prompt)),
        (58, lambda: world.allocate(number, chunk, rng.randrange(2))),
        (76, world.take_in),
        (90, lambda: world.free(number)),
        (94, lambda: world.withdraw(number)),
        (97, world.next_step),
        (98, world.stop_all),
    ):
        if draw < limit:
            return operation
    return world.reset

"""What no policy can break, whatever happens: children before parents, every block accounted for, determinism."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.kvcache.block_key import ROOT_KEY
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.events import BlockRemoved, BlockStored, CacheEvent
from anaphora.kvcache.eviction import EVICTION_POLICIES, default
from anaphora.kvcache.manager import KVCacheManager
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.types import BlockKey, Namespace, RequestId


class World:
    """Requests that overlap. A listener sees that nothing goes before its continuations."""

    def __init__(self, policy: str, num_blocks: int) -> None:
        config = CacheConfig(
            num_blocks=num_blocks, block_size=2, eviction_policy=policy, max_remembered_evictions=num_blocks
        )
        self.cache = KVCacheManager(config, listener=self.listen)
        self.events: list[CacheEvent] = []
        self.parents: dict[BlockKey, BlockKey] = {}
        self.num_children: Counter[BlockKey] = Counter()
        self.running: list[tuple[RequestId, int]] = []
        self.num_requests = 0

    def listen(self, event: CacheEvent) -> None:
        self.events.append(event)
        if isinstance(event, BlockStored):
            assert event.parent_key in (ROOT_KEY, *self.parents), "a continuation without beginning"
            self.parents[event.key] = event.parent_key
            self.num_children[event.parent_key] += 1
        elif isinstance(event, BlockRemoved):
            assert not self.num_children[event.key], "a beginning goes before its continuation"
            self.num_children[self.parents.pop(event.key)] -= 1
        else:
            self.parents.clear()
            self.num_children.clear()

    def begin(self, tokens: list[int], lookup: bool) -> None:
        self.num_requests += 1
        name = RequestId(str(self.num_requests))
        match = self.cache.match(Namespace(""), TokenBlocks(tokens, 2), lookup=lookup, step=self.num_requests)
        if self.cache.admit(name, match, len(tokens), step=self.num_requests) is not None:
            self.cache.remember_prompt(Namespace(""), match.tokens.to_bytes(), name)
            self.cache.commit(name, len(tokens))
            self.running.append((name, len(tokens)))

    def go_on(self, number: int, token: int) -> None:
        """One token more, from the block that the policy said would go next."""
        if self.running:
            name, num_tokens = self.running[number % len(self.running)]
            order = self.cache.pool.eviction_order()
            num_events = len(self.events)
            self.cache.tables[name].tokens.append(token)
            if self.cache.allocate(name, num_tokens + 1, step=self.num_requests) is None:
                self.end(number)
                return
            removed = [event.block_id for event in self.events[num_events:] if isinstance(event, BlockRemoved)]
            assert removed == list(order[: len(removed)])
            self.cache.commit(name, num_tokens + 1)
            self.running[number % len(self.running)] = (name, num_tokens + 1)

    def end(self, number: int) -> None:
        if self.running:
            self.cache.free(self.running.pop(number % len(self.running))[0])

    def serve(self, tokens: list[int], lookup: bool) -> None:
        num_running = len(self.running)
        self.begin(tokens, lookup)
        if len(self.running) > num_running:
            self.end(-1)

    def reset(self) -> None:
        assert self.cache.reset() is not bool(self.running)


PROMPTS = st.builds(
    lambda shared, cut, rest: (shared[:cut] + rest) or [0],
    st.sampled_from([[0] * 8, [0, 0, 1, 1, 0, 1, 0, 1]]),
    st.sampled_from([0, 2, 4, 6, 8]),
    st.lists(st.integers(0, 1), max_size=5),
)
NUMBERS = st.integers(0, 3)
BEGIN = st.tuples(st.just("begin"), PROMPTS, st.booleans())
SERVE = st.tuples(st.just("serve"), PROMPTS, st.just(True))
GO_ON = st.tuples(st.just("go_on"), NUMBERS, st.integers(0, 1))
END = st.tuples(st.just("end"), NUMBERS)
OPERATIONS = st.lists(st.one_of(BEGIN, SERVE, SERVE, GO_ON, END, st.just(("reset",))), min_size=20, max_size=40)


@pytest.fixture(autouse=True, scope="module")
def quick_to_learn() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default, "MIN_RETURNS", 2)
        patch.setattr(default, "LEARN_EVERY", 2)
        yield


@pytest.mark.parametrize("policy", EVICTION_POLICIES)
@settings(max_examples=50, deadline=None, derandomize=True)
@given(num_blocks=st.sampled_from([1, 4, 6, 9]), operations=OPERATIONS)
def test_whatever_happens(policy: str, num_blocks: int, operations: list[tuple[Any, ...]]) -> None:
    world, twin = World(policy, num_blocks), World(policy, num_blocks)
    for name, *arguments in operations:
        getattr(world, name)(*arguments)
        world.cache.check_integrity()
        getattr(twin, name)(*arguments)
    assert world.events == twin.events

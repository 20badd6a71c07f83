"""Pinned prefixes on small numbers. Blocks of 2 tokens, room for 8; at most 4 may be pinned."""

import pytest

from anaphora.errors import PinError
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.eviction import EVICTION_POLICIES
from anaphora.kvcache.manager import KVCacheManager
from anaphora.kvcache.pins import Pin
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.types import Namespace, RequestId

N = Namespace("n")
A = RequestId("a")


class Core:
    def __init__(self, policy: str = "lru", max_pins: int = 9) -> None:
        config = CacheConfig(num_blocks=8, block_size=2, eviction_policy=policy, max_pins=max_pins)
        self.manager = KVCacheManager(config)
        self.pins = self.manager.pins

    def admit(self, tokens: list[int], name: RequestId = A) -> None:
        match = self.manager.match(N, TokenBlocks(tokens, 2))
        assert self.manager.admit(name, match, len(tokens), step=0)
        self.manager.remember_prompt(N, match.tokens.to_bytes(), name)
        self.manager.commit(name, len(tokens))
        self.manager.check_integrity()

    def store(self, *tokens: int) -> None:
        self.admit([*tokens])
        self.manager.free(A)
        self.manager.check_integrity()

    def pin(self, name: str, *tokens: int, now_s: float = 0, time_to_live_s: float | None = None) -> Pin:
        try:
            return self.pins.add(name, N, TokenBlocks(tokens, 2), now_s=now_s, time_to_live_s=time_to_live_s)
        finally:
            self.manager.check_integrity()

    def matched(self, *tokens: int) -> int:
        return self.manager.match(N, TokenBlocks([*tokens, 0], 2)).num_cached_tokens


@pytest.mark.parametrize("policy", sorted(EVICTION_POLICIES))
def test_what_is_pinned_stays_whatever_else_is_stored(policy: str) -> None:
    core = Core(policy)
    core.store(1, 2, 3, 4, 5, 6)
    assert core.pin("p", 1, 2, 3, 4, 9) == Pin("p", N, 2, 4, 0, None)
    for number in range(10, 20):
        core.store(*[number] * 12)
    assert core.matched(1, 2, 3, 4, 5, 6) == 4
    assert core.pins.remove("p")
    core.manager.check_integrity()
    assert not core.pins.remove("p")
    assert core.manager.pool.num_available == 8
    for number in range(20, 23):
        core.store(*[number] * 16)
    assert (core.matched(1, 2, 3, 4), core.pins.all()) == (0, ())


def test_pins_hold_blocks_like_requests() -> None:
    core = Core()
    core.store(1, 2, 3, 4)
    core.pin("p", 1, 2, 3, 4)
    core.pin("q", 1, 2)
    assert core.manager.pool.eviction_order() == ()
    assert core.manager.usage == 2 / 8
    assert core.pins.num_blocks == 2
    core.pins.remove("p")
    assert core.manager.pool.eviction_order() == (1,)
    assert [extent.ref_count for extent in core.manager.prefixes.index] == [1, 0]


def test_a_pin_is_bounded_by_a_share_of_the_pool_and_refused_beyond_it() -> None:
    core = Core()
    core.store(1, 2, 3, 4, 5, 6, 7, 8)
    core.store(1, 2, 9, 9, 9, 9)
    core.pin("p", 1, 2, 3, 4, 5, 6)
    with pytest.raises(PinError, match="5 blocks would be pinned, and at most 4 may be"):
        core.pin("q", 1, 2, 9, 9, 9, 9)
    assert [pin.name for pin in core.pins.all()] == ["p"]
    core.pin("q", 1, 2, 9, 9)  # the first block is pinned already
    assert core.pins.num_blocks == 4
    core.pin("p", 1, 2, 3, 4)  # in place of the pin of that name
    assert (core.pins.num_blocks, len(core.pins)) == (3, 2)


def test_a_prefix_within_a_pinned_one_takes_no_further_blocks() -> None:
    core = Core()
    core.store(1, 2, 3, 4, 5, 6, 7, 8)
    core.pin("p", 1, 2, 3, 4, 5, 6, 7, 8)
    core.pin("q", 1, 2, 3, 4)
    assert core.pins.num_blocks == 4


def test_only_what_is_cached_can_be_pinned() -> None:
    core = Core()
    with pytest.raises(PinError, match="nothing of this prefix is cached"):
        core.pin("p", 1, 2)
    match = core.manager.match(N, TokenBlocks([1, 2], 2), step=0)
    assert core.manager.admit(A, match, 2, step=0)
    with pytest.raises(PinError, match="nothing of this prefix is cached"):
        core.pin("p", 1, 2)  # pending
    core.manager.commit(A, 2)
    with pytest.raises(PinError, match="nothing of this prefix is cached"):
        core.pin("p", 1)  # no full block
    assert core.pin("p", 1, 2, 3, 4).num_blocks == 1
    core.manager.free(A)
    assert core.manager.pool.num_cached_only == 0


@pytest.mark.parametrize("policy", sorted(EVICTION_POLICIES))
def test_a_pin_may_outlive_the_request_that_stored_it(policy: str) -> None:
    core = Core(policy)
    core.admit([1, 2, 3, 4])
    core.pin("p", 1, 2)
    core.manager.free(A)
    core.pins.remove("p")
    core.manager.check_integrity()
    assert core.manager.pool.num_cached_only == 2


def test_pins_end_when_their_time_is_told() -> None:
    core = Core()
    core.store(1, 2)
    core.store(3, 4)
    core.pin("short", 1, 2, now_s=100, time_to_live_s=10)
    core.pin("long", 3, 4, now_s=100, time_to_live_s=20)
    core.pin("endless", 3, 4, now_s=100)
    assert core.pins.expire(109.9) == []
    assert core.pins.expire(110) == ["short"]
    assert core.manager.pool.num_cached_only == 1
    core.store(5, 6)
    core.pin("other", 5, 6, now_s=120)  # says the time, too
    assert [pin.name for pin in core.pins.all()] == ["endless", "other"]


def test_the_pin_that_ends_first_gives_way_first_and_of_endless_ones_the_oldest() -> None:
    core = Core()
    for number in (1, 2, 3, 4):
        core.store(number, number)
    core.pin("old", 1, 1)
    core.pin("new", 2, 2)
    core.pin("late", 3, 3, time_to_live_s=9)
    core.pin("soon", 4, 4, time_to_live_s=5)
    order: list[str] = []
    while len(core.pins):
        before = {pin.name for pin in core.pins.all()}
        assert core.pins.give_way()
        order += before - {pin.name for pin in core.pins.all()}
    assert order == ["soon", "late", "old", "new"]
    assert not core.pins.give_way()


def test_a_reset_lets_all_pins_go() -> None:
    core = Core()
    core.store(1, 2, 3, 4)
    core.pin("p", 1, 2)
    assert core.manager.reset()
    core.manager.check_integrity()
    assert (core.pins.all(), core.manager.pool.num_blank) == ((), 8)


def test_there_are_so_many_pins_and_no_more_however_few_blocks_they_have() -> None:
    core = Core(max_pins=2)
    core.store(1, 2, 3, 4)
    core.pin("p", 1, 2)
    core.pin("q", 1, 2, time_to_live_s=10)
    with pytest.raises(PinError, match="there are 2 pins, and at most 2 may be: let another one go"):
        core.pin("r", 1, 2)
    core.pin("q", 1, 2, 3, 4, time_to_live_s=10)  # in place of the pin of that name
    assert [pin.name for pin in core.pins.all()] == ["p", "q"]
    core.pin("r", 1, 2, now_s=10)  # the other's time is over
    assert ([pin.name for pin in core.pins.all()], core.pins.num_blocks) == (["p", "r"], 1)


def test_nothing_can_be_pinned_where_no_share_is_given() -> None:
    core = Core()
    core.store(1, 2)
    core.pins.max_blocks = 0
    with pytest.raises(PinError, match="at most 0 may be"):
        core.pin("p", 1, 2)
    assert core.manager.pool.num_available == 8

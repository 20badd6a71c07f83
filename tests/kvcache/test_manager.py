"""The cache core on small numbers: which blocks, in which order, with which reference counts. Blocks of 4 tokens."""

from dataclasses import dataclass, field

import pytest
from tests.kvcache.places import places, reference_counts

from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.manager import KVCacheManager
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.types import Namespace, RequestId

A, B, C, D = RequestId("a"), RequestId("b"), RequestId("c"), RequestId("d")
TWELVE = list(range(12))


@dataclass
class Core:
    """A manager, checked after every change, and steps counted for it."""

    manager: KVCacheManager
    step: int = 0
    num_tokens: dict[RequestId, int] = field(default_factory=dict)

    def admit(
        self,
        name: RequestId,
        tokens: list[int],
        num_tokens: int | None = None,
        *,
        lookup: bool = True,
        namespace: str = "",
    ) -> int | None:
        """Cached tokens, or ``None`` if there is no room."""
        packed = TokenBlocks(tokens, 4)
        match = self.manager.match(Namespace(namespace), packed, lookup=lookup, step=self.step)
        table = self.manager.admit(name, match, num_tokens or len(tokens), step=self.step)
        self.num_tokens[name] = num_tokens or len(tokens)
        self.manager.check_integrity()
        return None if table is None else match.num_cached_tokens

    def commit(self, *names: RequestId) -> None:
        for name in names:
            self.manager.commit(name, self.num_tokens[name])
        self.step += 1
        self.manager.check_integrity()

    def free(self, *names: RequestId) -> None:
        for name in names:
            self.manager.free(name)
            self.manager.check_integrity()

    def store(self, name: RequestId, tokens: list[int], *, namespace: str = "") -> None:
        assert self.admit(name, tokens, namespace=namespace) is not None
        self.commit(name)
        self.free(name)

    def refs(self) -> list[int]:
        return reference_counts(self.manager)

    def matched(self, tokens: list[int], namespace: str = "", step: int | None = None) -> int:
        return self.manager.match(Namespace(namespace), TokenBlocks(tokens, 4), step=step).num_cached_tokens


def core(num_blocks: int = 8, **options: bool) -> Core:
    return Core(KVCacheManager(CacheConfig(num_blocks=num_blocks, block_size=4, **options)))  # type: ignore[arg-type]


def test_full_blocks_are_reused_and_shared() -> None:
    c = core()
    c.store(A, [*TWELVE, 50])
    assert c.admit(B, [*TWELVE, 60]) == 12
    assert c.admit(C, [*TWELVE, 70, 71, 72, 73, 74]) == 12
    assert c.manager.block_ids(B) == (0, 1, 2, 3)
    assert c.manager.block_ids(C) == (0, 1, 2, 4, 5)
    assert c.refs() == [2, 2, 2, 1, 1, 1, 0, 0]
    assert c.manager.usage == 6 / 8


@pytest.mark.parametrize("num_tokens", range(1, 14))
def test_the_reusable_prefix_leaves_one_token_to_compute(num_tokens: int) -> None:
    c = core()
    c.store(A, list(range(16)))
    assert c.matched(list(range(num_tokens))) == (num_tokens - 1) // 4 * 4


def test_match_is_a_question() -> None:
    c = core()
    c.store(A, TWELVE)
    before = (c.manager.pool.eviction_order(), c.refs(), len(list(c.manager.prefixes.index)))
    for _ in range(3):
        assert c.matched([*TWELVE, 1]) == 12
        assert c.matched([9, 9, 9, 9, 9], namespace="nobody") == 0
    assert before == (c.manager.pool.eviction_order(), c.refs(), len(list(c.manager.prefixes.index)))


def test_blocks_are_freed_tail_first_so_the_head_of_a_prompt_outlives_its_tail() -> None:
    c = core(4)
    c.store(A, list(range(16)))
    assert c.manager.pool.eviction_order() == (3, 2, 1, 0)
    c.store(B, [90, 91, 92, 93, 94])
    assert c.matched(list(range(17))) == 8
    assert c.manager.stats.num_evicted_blocks == 2


def test_a_hit_makes_blocks_the_last_to_go() -> None:
    c = core(4)
    c.store(A, list(range(8)))
    c.store(B, list(range(50, 58)))
    assert c.manager.pool.eviction_order() == (1, 0, 3, 2)
    c.store(C, [*range(8), 99])
    # The unfinished block of C took block 3, B's tail. Its own full blocks are the latest now.
    assert c.manager.pool.eviction_order() == (2, 1, 0)
    assert c.manager.pool.blank_ids() == (3,)


def test_touched_blocks_are_the_last_to_go_and_were_found_once_more() -> None:
    c = core(5)
    c.store(A, TWELVE)
    c.store(B, list(range(50, 58)))
    assert c.manager.pool.eviction_order() == (2, 1, 0, 4, 3)
    c.manager.touch(c.manager.match(Namespace(""), TokenBlocks([*range(8), 99], 4)))
    c.manager.check_integrity()
    assert c.manager.pool.eviction_order() == (2, 4, 3, 1, 0)
    c.manager.touch(c.manager.match(Namespace(""), TokenBlocks([99], 4)))
    uses = {block_id: place.extent.num_uses for block_id, place in places(c.manager).items()}
    assert uses == {0: 1, 1: 1, 2: 0, 3: 0, 4: 0}


def test_what_a_request_adds_bit_by_bit_is_one_extent() -> None:
    c = core()
    c.store(D, list(range(4)))
    c.admit(A, list(range(12)), 6)
    c.commit(A)
    for end in (9, 12):
        c.num_tokens[A] = end
        assert c.manager.allocate(A, end, step=c.step)
        c.commit(A)
    for token in range(12, 20):
        c.manager.tables[A].tokens.append(token)
        c.num_tokens[A] += 1
        assert c.manager.allocate(A, c.num_tokens[A], step=c.step)
        c.commit(A)
    assert [extent.num_blocks for extent in c.manager.prefixes.index] == [1, 4], "found and added blocks differ"
    c.free(A)
    assert c.admit(B, [*range(8), 99]) == 8
    assert [extent.num_blocks for extent in c.manager.prefixes.index] == [1, 1, 3], "cut where the match ended"


def test_the_blocks_of_one_allocation_ascend_whatever_the_order_of_eviction() -> None:
    c = core(6)
    c.store(A, list(range(24)))
    assert c.manager.pool.eviction_order() == (5, 4, 3, 2, 1, 0)
    c.admit(B, [70] * 13)
    assert c.manager.block_ids(B) == (2, 3, 4, 5)


def test_what_does_not_fit_changes_nothing() -> None:
    c = core(4)
    c.store(A, list(range(8)))
    c.admit(B, [70] * 5)
    match = c.manager.match(Namespace(""), TokenBlocks(list(range(12)), 4))
    # Two blocks can be had, both of them the matched ones: the third has nowhere to go.
    assert c.manager.pool.num_available == 2
    assert not c.manager.fits(match, 12)
    assert c.admit(C, list(range(12))) is None
    assert c.manager.allocate(B, 20, step=0) is None
    assert c.matched(list(range(9))) == 8
    assert c.manager.stats.num_evicted_blocks == 0


def test_generated_tokens_are_cached_like_prompts() -> None:
    c = core()
    c.admit(A, [1, 2, 3])
    c.commit(A)
    for token in (4, 5, 6, 7, 8):
        c.manager.tables[A].tokens.append(token)
        c.num_tokens[A] += 1
        assert c.manager.allocate(A, c.num_tokens[A], step=c.step)
        c.commit(A)
    assert c.matched([1, 2, 3, 4, 5, 6, 7, 8, 9]) == 8


def test_a_block_table_is_the_same_object_until_it_grows() -> None:
    c = core()
    c.admit(A, [1, 2, 3])
    first = c.manager.tables[A].ids
    c.commit(A)
    c.manager.tables[A].tokens.append(4)
    c.manager.allocate(A, 4, step=c.step)
    assert c.manager.tables[A].ids is first
    assert c.manager.block_ids(A) == (0,)
    c.manager.commit(A, 4)
    c.manager.tables[A].tokens.append(5)
    c.manager.allocate(A, 5, step=c.step)
    assert c.manager.block_ids(A) == (0, 1)
    assert list(first) == [0], "who was given it keeps what it was given"


class TestPending:
    """Blocks that a step is to compute."""

    def test_they_match_within_their_step_only(self) -> None:
        c = core()
        c.admit(A, [*TWELVE, 50])
        assert c.admit(B, [*TWELVE, 60]) == 12
        assert c.refs() == [2, 2, 2, 1, 1, 0, 0, 0]
        assert c.matched([*TWELVE, 70], step=c.step + 1) == 0
        assert c.matched([*TWELVE, 70]) == 0
        c.commit(A, B)
        assert c.matched([*TWELVE, 70]) == 12

    def test_only_full_blocks_of_the_chunk_are_pending(self) -> None:
        c = core()
        c.admit(A, TWELVE, 7)
        assert c.matched([*TWELVE, 50], step=c.step) == 4
        c.commit(A)
        assert c.matched([*TWELVE, 50]) == 4
        c.manager.allocate(A, 12, step=c.step)
        assert c.matched([*TWELVE, 50], step=c.step) == 12

    def test_withdrawn_they_match_no_more_and_come_again(self) -> None:
        c = core()
        c.admit(A, TWELVE)
        c.manager.withdraw(A)
        c.manager.check_integrity()
        assert c.matched([*TWELVE, 50], step=c.step) == 0
        c.manager.allocate(A, 12, step=c.step)
        assert c.matched([*TWELVE, 50], step=c.step) == 12
        assert c.manager.block_ids(A) == (0, 1, 2)

    def test_who_matched_them_depends_on_their_owner(self) -> None:
        c = core()
        c.store(D, list(range(4)))
        c.admit(A, list(range(8)))
        c.admit(B, [*range(8), 50, 51, 52, 53])
        c.admit(C, [*range(8), 50, 51, 52, 53, 60])
        c.admit(D, [*range(4), 70])  # from what is cached, not from A
        assert c.manager.dependents(A) == (B, C)
        assert c.manager.dependents(B) == (C,)
        assert c.manager.dependents(C) == c.manager.dependents(D) == ()
        with pytest.raises(AssertionError):
            c.manager.free(A)
        c.free(C, B, A)
        assert c.matched([*range(8), 50], step=c.step) == 4
        assert c.refs() == [1, 0, 0, 0, 1, 0, 0, 0]

    def test_an_owner_that_goes_after_its_commit_takes_nobody_along(self) -> None:
        c = core()
        c.admit(A, TWELVE)
        c.admit(B, [*TWELVE, 50])
        c.commit(A, B)
        assert c.manager.dependents(A) == ()
        c.free(A)
        assert c.refs() == [1, 1, 1, 1, 0, 0, 0, 0]

    def test_an_owner_that_has_committed_what_it_lent_is_free_to_go_while_it_computes_more(self) -> None:
        c = core()
        c.admit(A, TWELVE, 8)
        c.admit(B, [*TWELVE[:8], 50])
        assert c.manager.dependents(A) == (B,)
        c.manager.commit(A, 8)
        c.manager.allocate(A, 12, step=c.step)
        assert c.manager.dependents(A) == ()
        c.free(A)
        c.commit(B)
        assert c.refs() == [1, 1, 1, 0, 0, 0, 0, 0]

    def test_of_an_evicted_prefix_leave_it_evicted_when_withdrawn(self) -> None:
        c = core(3)
        c.manager.remember_prompt(Namespace(""), b"", A)  # the namespace is in use
        c.store(A, TWELVE)
        c.store(B, [90] * 12)
        c.admit(C, TWELVE)
        c.manager.withdraw(C)
        c.manager.check_integrity()
        memory = c.manager.prefixes.memory.get(Namespace(""))
        assert memory is not None
        assert memory.num_remembered_evictions == 6  # both prompts were evicted once, A's in vain
        c.manager.allocate(C, 12, step=c.step)
        c.commit(C)
        assert memory.num_remembered_evictions == 3


class TestEqualBlocks:
    """The same tokens computed twice are stored once."""

    def test_a_last_block_computed_again_gives_way_to_the_cached_one(self) -> None:
        c = core()
        c.store(A, TWELVE)
        assert c.admit(B, TWELVE) == 8
        assert c.manager.block_ids(B) == (0, 1, 3)
        c.commit(B)
        assert c.manager.block_ids(B) == (0, 1, 2)
        assert c.refs() == [1, 1, 1, 0, 0, 0, 0, 0]
        assert c.manager.pool.blank_ids() == (3, 4, 5, 6, 7)

    def test_two_that_fill_the_same_block_in_one_step_end_with_one(self) -> None:
        c = core()
        c.admit(A, TWELVE, lookup=False)
        c.admit(B, TWELVE, lookup=False)
        assert c.manager.block_ids(B) == (3, 4, 5)
        c.commit(A, B)
        assert c.manager.block_ids(A) == c.manager.block_ids(B) == (0, 1, 2)
        assert c.manager.stats.num_stored_blocks == 3

    def test_if_the_first_is_withdrawn_the_second_is_cached(self) -> None:
        c = core()
        c.admit(A, TWELVE, lookup=False)
        c.admit(B, TWELVE, lookup=False)
        c.free(A)
        c.commit(B)
        assert c.manager.block_ids(B) == (3, 4, 5)
        assert c.matched([*TWELVE, 50]) == 12

    def test_a_block_that_another_is_still_computing_waits_for_the_next_commit(self) -> None:
        c = core()
        c.admit(A, list(range(4)))
        c.admit(B, list(range(8)), lookup=False)  # stops at the block that A has, so its second is not pending
        c.admit(C, list(range(9)))
        assert c.manager.block_ids(C) == (0, 3, 4)
        c.manager.commit(A, 4)
        c.manager.commit(B, 8)
        c.manager.check_integrity()
        assert c.manager.block_ids(B) == (0, 2), "the first is A's now, the second still its own"
        c.manager.commit(C, 9)
        assert c.matched(list(range(9))) == 8
        c.manager.tables[B].tokens.append(99)
        c.manager.allocate(B, 9, step=c.step)
        assert c.manager.block_ids(B) == (0, 2, 1)
        c.manager.commit(B, 9)
        c.manager.check_integrity()
        assert c.manager.block_ids(B) == (0, 3, 1), "now the second is C's"


class TestCachingOff:
    def test_nothing_is_looked_up_or_stored(self) -> None:
        c = core(enable_prefix_caching=False)
        c.store(A, TWELVE)
        assert c.admit(B, [*TWELVE, 1]) == 0
        c.commit(B)
        assert list(c.manager.prefixes.index) == []
        assert c.manager.stats.num_stored_blocks == 0
        c.manager.remember_prompt(Namespace(""), b"1234", B)
        assert list(c.manager.prefixes.memory) == []
        c.free(B)
        assert c.manager.pool.num_blank == 8


class TestReset:
    def test_it_is_refused_while_blocks_are_in_use(self) -> None:
        c = core()
        c.store(A, TWELVE)
        c.admit(B, [1])
        assert not c.manager.reset()
        assert c.matched([*TWELVE, 1]) == 12
        assert c.manager.stats.num_resets == 0

    def test_it_forgets_all_that_was_cached_and_remembered(self) -> None:
        c = core()
        c.manager.remember_prompt(Namespace(""), b"1234", A)
        c.store(A, TWELVE)
        assert c.manager.reset()
        c.manager.check_integrity()
        assert c.matched([*TWELVE, 1]) == 0
        assert c.manager.pool.num_blank == 8
        assert list(c.manager.prefixes.memory) == []
        assert c.manager.stats.num_resets == 1
        c.store(A, TWELVE)
        assert c.matched([*TWELVE, 1]) == 12


def test_a_prompt_can_be_forgotten_before_its_namespace_is_known() -> None:
    c = core()
    c.manager.forget_prompt(Namespace("nobody"), b"1234", A)
    c.manager.remember_prompt(Namespace("x"), b"1234", A)
    c.manager.forget_prompt(Namespace("x"), b"1234", A)
    (memory,) = c.manager.prefixes.memory
    assert len(memory.prompts) == 0

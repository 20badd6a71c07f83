"""The default policy learns who comes back."""

import pytest
from tests.kvcache.places import find, places

from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.eviction.default import DefaultEviction
from anaphora.kvcache.manager import KVCacheManager
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.types import Namespace, RequestId

CHAT, DOCUMENT = 1, 16
"""Blocks that a chat's turn and a document take. Chats come back, documents do not."""


class Server:
    """Blocks of 2 tokens, room for 200."""

    def __init__(self, policy: str) -> None:
        self.manager = KVCacheManager(CacheConfig(num_blocks=200, block_size=2, eviction_policy=policy))
        self.num_requests = 0
        self.num_cached_tokens = 0

    def ask(self, tokens: list[int], num_answer_tokens: int = 100) -> None:
        self.num_requests += 1
        name = RequestId(str(self.num_requests))
        match = self.manager.match(Namespace(""), TokenBlocks([*tokens, 0], 2))
        self.num_cached_tokens += match.num_cached_tokens
        assert self.manager.admit(name, match, len(tokens) + 1, step=self.num_requests)
        self.manager.remember_prompt(Namespace(""), match.tokens.to_bytes(), name)
        self.manager.commit(name, len(tokens) + 1)
        self.manager.free(name, num_answer_tokens=num_answer_tokens)


def serve_chats_and_documents(policy: str) -> Server:
    server = Server(policy)
    for number in range(1200):
        server.ask([2 * number + 1000] * 2 * CHAT)
        server.ask([2 * number + 1001] * 2 * DOCUMENT)
        if number >= 20:
            server.ask([2 * (number - 20) + 1000] * 2 * CHAT)
    return server


def test_until_it_has_seen_enough_it_takes_what_was_given_up_longest_ago() -> None:
    server = Server("default")
    server.ask([1, 1, 2, 2])
    server.ask([3, 3])
    server.ask([1, 1])
    where = places(server.manager)
    assert [where[i].tokens[0] for i in server.manager.pool.eviction_order()] == [2, 3, 1]


def test_what_never_comes_back_goes_first() -> None:
    lru, ours = serve_chats_and_documents("lru"), serve_chats_and_documents("default")
    assert lru.num_cached_tokens == 0  # 20 documents are more than there is room for
    assert ours.num_cached_tokens > 0.8 * 2 * CHAT * 1180
    ours.manager.check_integrity()


def test_asking_what_would_go_changes_nothing() -> None:
    server = serve_chats_and_documents("default")
    order = server.manager.pool.eviction_order()
    assert server.manager.pool.eviction_order() == order
    assert len(order) == server.manager.pool.num_cached_only == server.manager.pool.num_blocks - 1


def test_a_block_that_outlives_every_step_of_age_is_worth_nothing() -> None:
    server = serve_chats_and_documents("default")
    server.ask([5, 5])
    policy = server.manager.pool.policy
    assert isinstance(policy, DefaultEviction)
    visit = find(server.manager, 5, 5).extent.visit
    assert visit
    assert policy.rate(visit) > 0
    visit.left_at -= 16 * 200
    assert policy.rate(visit) == 0


@pytest.mark.parametrize(("first", "second"), [(4, 8), (8, 4)])
def test_of_kinds_that_are_worth_the_same_the_one_given_up_first_goes_first(first: int, second: int) -> None:
    server = serve_chats_and_documents("default")
    server.ask([5] * 2 * first)  # their numbers of blocks make them two kinds
    server.ask([6] * 2 * second)
    visits = {place.extent.visit for place in places(server.manager).values() if place.tokens in ((5, 5), (6, 6))}
    assert len(visits) == 2
    for visit in visits:
        assert visit
        visit.left_at -= 16 * 200  # now they are worth nothing, and what was given up before them still is
    where = places(server.manager)
    order = [where[i].tokens for i in server.manager.pool.eviction_order() if i in where]
    assert order[: first + second] == [(5, 5)] * first + [(6, 6)] * second


def test_a_reset_forgets_what_was_learnt() -> None:
    server = serve_chats_and_documents("default")
    assert server.manager.reset()
    server.num_cached_tokens = 0
    for number in range(40):
        server.ask([2 * number + 1000] * 2 * CHAT)
        server.ask([2 * number + 1001] * 2 * DOCUMENT)
    server.ask([1000] * 2 * CHAT)
    assert server.num_cached_tokens == 0


def test_the_length_of_the_answer_is_told_or_counted() -> None:
    server = Server("default")
    server.ask([1, 1], num_answer_tokens=100)
    name = RequestId("counted")
    match = server.manager.match(Namespace(""), TokenBlocks([2, 2], 2))
    table = server.manager.admit(name, match, 2, step=9)
    assert table
    server.manager.commit(name, 2)
    table.tokens.append(3)
    server.manager.free(name)
    visits = [place.extent.visit for _, place in sorted(places(server.manager).items())]
    assert [visit.kind for visit in visits if visit] == [1, 33]

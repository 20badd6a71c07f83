"""What is remembered of evictions while the same prefixes come and go. Blocks of 2 tokens."""

from tests.kvcache.places import places_of

from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.ledger import Reason
from anaphora.kvcache.manager import KVCacheManager
from anaphora.kvcache.token_blocks import TokenBlocks, pack
from anaphora.types import Namespace, RequestId

N = Namespace("n")
A, B, C = RequestId("a"), RequestId("b"), RequestId("c")


class Core:
    def __init__(self, num_blocks: int, max_remembered_evictions: int) -> None:
        config = CacheConfig(num_blocks=num_blocks, block_size=2, max_remembered_evictions=max_remembered_evictions)
        self.manager = KVCacheManager(config)
        self.manager.prefixes.memory.touch(N)

    def admit(self, name: RequestId, tokens: list[int]) -> None:
        packed = TokenBlocks(tokens, 2)
        assert self.manager.admit(name, self.manager.match(N, packed), len(tokens), step=0)
        self.manager.check_integrity()

    def store(self, tokens: list[int]) -> None:
        self.admit(A, tokens)
        self.manager.commit(A, len(tokens))
        self.free(A)

    def free(self, name: RequestId) -> None:
        self.manager.free(name)
        self.manager.check_integrity()

    def counts(self, tokens: list[int]) -> dict[Reason, int]:
        return self.manager.explain(self.manager.match(N, TokenBlocks(tokens, 2))).counts

    def remembered(self) -> list[bytes]:
        memory = self.manager.prefixes.memory.get(N)
        assert memory is not None
        return [pack(place.tokens).tobytes() for extent in memory for place in reversed(places_of(extent))]


def two_evicted_prompts_and_one_cached() -> Core:
    core = Core(num_blocks=3, max_remembered_evictions=1)
    core.store([1, 2])
    core.store([3, 4])
    core.admit(B, [5, 6, 7])
    core.free(B)
    assert core.counts([1, 2]) == {Reason.EVICTED: 2}
    return core


def test_an_eviction_forgotten_while_its_prefix_is_computed_again_leaves_the_prefix_pending() -> None:
    core = two_evicted_prompts_and_one_cached()
    core.admit(B, [1, 2])
    core.admit(C, [5, 6, 7])
    assert core.remembered() == TokenBlocks([3, 4], 2).full
    core.manager.commit(B, 2)
    core.manager.check_integrity()
    assert core.counts([1, 2, 3]) == {Reason.REUSED_DEVICE: 2, Reason.TAIL: 1}


def test_the_end_of_an_eviction_is_forgotten_while_its_prefix_is_computed_again() -> None:
    core = Core(num_blocks=6, max_remembered_evictions=4)
    core.store([1, 2, 3, 4])
    core.store([5, 6, 7, 8, 9, 10, 11, 12])
    core.store([20, 21, 22, 23])
    core.admit(B, [1, 2, 3, 4])
    core.admit(C, [30, 31])
    assert core.remembered() == [pack(tokens).tobytes() for tokens in ([1, 2], [11, 12], [9, 10], [7, 8])]
    core.free(B)
    assert core.counts([1, 2, 3, 4]) == {Reason.EVICTED: 2, Reason.NEW: 2}


def test_withdrawn_after_that_it_is_new() -> None:
    core = two_evicted_prompts_and_one_cached()
    core.admit(B, [1, 2])
    core.admit(C, [5, 6, 7])
    core.free(B)
    assert core.counts([1, 2]) == {Reason.NEW: 2}
    assert core.counts([3, 4]) == {Reason.EVICTED: 2}


def test_a_child_is_forgotten_before_its_parent() -> None:
    core = Core(num_blocks=3, max_remembered_evictions=2)
    core.store([1, 2, 3, 4, 5, 6])
    core.store([7] * 6)
    assert core.remembered() == [*TokenBlocks([3, 4], 2).full, *TokenBlocks([1, 2], 2).full]
    assert core.counts([1, 2, 3, 4, 5, 6]) == {Reason.EVICTED: 4, Reason.NEW: 2}


def test_of_a_namespace_that_was_forgotten_evictions_are_not_remembered() -> None:
    core = Core(num_blocks=2, max_remembered_evictions=9)
    core.store([1, 2, 3, 4])
    core.manager.prefixes.memory.clear()
    core.store([7] * 4)
    assert core.counts([1, 2, 3, 4]) == {Reason.NEW: 4}
    assert core.manager.stats.num_evicted_blocks == 2

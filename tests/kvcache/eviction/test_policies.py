"""Each policy on small numbers: which prefix goes first. A letter is a block."""

from tests.kvcache.places import places

from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.manager import KVCacheManager
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.types import Namespace, RequestId


class Cache:
    """Requests from beginning to end, one by one. Room for ``num_blocks``, and for the token that is computed."""

    def __init__(self, policy: str, num_blocks: int) -> None:
        self.manager = KVCacheManager(CacheConfig(num_blocks=num_blocks + 1, block_size=2, eviction_policy=policy))
        self.num_requests = 0

    def ask(self, *prompts: str) -> None:
        for prompt in prompts:
            self.num_requests += 1
            name = RequestId(str(self.num_requests))
            tokens = [ord(letter) for letter in prompt for _ in range(2)] + [0]
            match = self.manager.match(Namespace(""), TokenBlocks(tokens, 2))
            assert self.manager.admit(name, match, len(tokens), step=self.num_requests)
            self.manager.remember_prompt(Namespace(""), match.tokens.to_bytes(), name)
            self.manager.commit(name, len(tokens))
            self.manager.free(name)
            self.manager.check_integrity()

    @property
    def order(self) -> str:
        """What would go, the next one first."""
        where = places(self.manager)
        return "".join(chr(where[i].tokens[0]) for i in self.manager.pool.eviction_order())


def test_lru_takes_what_was_given_up_longest_ago() -> None:
    cache = Cache("lru", 5)
    cache.ask("ab", "cd", "e", "ab")
    assert cache.order == "dceba"
    cache.ask("f")
    assert cache.order == "cebaf"


def test_fifo_takes_what_was_stored_longest_ago_however_often_it_is_used() -> None:
    cache = Cache("fifo", 5)
    cache.ask("ab", "cd", "e", "ab")
    assert cache.order == "badce"
    cache.ask("f")
    assert cache.order == "adcef"


def test_lfu_takes_what_the_fewest_requests_have_found() -> None:
    cache = Cache("lfu", 5)
    cache.ask("ab", "ab", "ab", "cd", "e", "c")
    assert cache.order == "decba"
    cache.ask("f")
    assert cache.order == "efcba"


def test_uses_are_counted_anew_after_an_eviction() -> None:
    cache = Cache("lfu", 1)
    cache.ask("a", "a", "a", "b", "a")
    (place,) = places(cache.manager).values()
    assert (place.extent.num_uses, place.extent.num_stores) == (0, 2)


def test_slru_protects_what_was_used_again() -> None:
    cache = Cache("slru", 6)
    cache.ask("a", "b", "c", "d", "a", "c")
    assert cache.order == "bdac"


def test_slru_protects_half_of_the_leaves() -> None:
    cache = Cache("slru", 6)
    cache.ask("a", "b", "c", "d", "c", "a", "b")
    assert cache.order == "dcab"  # the use of b puts c on probation again
    cache.ask("d")
    assert cache.order == "cabd"
    cache.ask("c")
    assert cache.order == "abdc"


def test_s3fifo_takes_new_ones_first_unless_used() -> None:
    cache = Cache("s3fifo", 4)
    cache.ask("a", "b", "c", "d", "a", "b")
    assert cache.order == "cdab"  # a and b are sent to the other queue on the way
    cache.ask("e", "f")
    assert cache.order == "efab"


def test_s3fifo_lets_a_block_line_up_again_for_each_use() -> None:
    cache = Cache("s3fifo", 2)
    cache.ask("a", "b", "a", "a", "b")
    assert cache.order == "ba"  # stored later, but used once less


def test_s3fifo_knows_what_comes_back_after_an_eviction() -> None:
    cache = Cache("s3fifo", 3)
    cache.ask("a", "b", "c", "d")
    assert cache.order == "bcd"
    cache.ask("a")  # b went for it
    assert cache.order == "cda"
    cache.ask("e")
    assert cache.order == "dea"
    cache.ask("a", "a")  # a is held, and keeps its place when it is given up
    assert cache.order == "dea"

"""Requests served one after another or at once, straight on the cache core, through what the scheduler calls."""

import random
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from anaphora.kvcache.ledger import Ledger
from anaphora.kvcache.manager import KVCacheManager
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.types import Namespace, RequestId


class Prompt(NamedTuple):
    namespace: Namespace
    tokens: tuple[int, ...]


class Serving:
    """Gives requests names and steps."""

    def __init__(self, cache: KVCacheManager) -> None:
        self.cache = cache
        self._num_requests = 0

    def begin(self, prompt: Prompt) -> tuple[RequestId, Ledger, bool]:
        """Admit and compute a prompt: its name, its ledger, and whether there was room for it."""
        cache, self._num_requests = self.cache, self._num_requests + 1
        name, step = RequestId(f"r{self._num_requests}"), self._num_requests
        tokens = TokenBlocks(prompt.tokens, cache.config.block_size)
        match = cache.match(prompt.namespace, tokens, step=step)
        ledger = cache.explain(match)
        if cache.admit(name, match, tokens.num_tokens, step=step) is None:
            return name, ledger, False
        cache.remember_prompt(prompt.namespace, tokens.to_bytes(), name)
        cache.commit(name, tokens.num_tokens)
        return name, ledger, True

    def serve(self, prompt: Prompt) -> Ledger:
        """A request from its beginning to its end; without room it ends at once."""
        name, ledger, is_there = self.begin(prompt)
        if is_there:
            self.cache.free(name)
        return ledger

    def serve_all(self, prompts: Iterable[Prompt]) -> list[Ledger]:
        return [self.serve(prompt) for prompt in prompts]


def random_prompts(seed: int, num_prompts: int, namespaces: tuple[str, ...] = ("", "a", "b")) -> Iterator[Prompt]:
    """Conversations of several tenants over few beginnings: they repeat, go on, and part from each other."""
    rng = random.Random(seed)
    earlier: list[tuple[int, ...]] = [(0,) * 12, (0, 1) * 9]
    for _ in range(num_prompts):
        base = rng.choice(earlier)
        tokens = base[: rng.choice((len(base), len(base), rng.randint(0, len(base))))]
        tokens = (*tokens, *(rng.randrange(3) for _ in range(rng.randint(1, 6))))
        earlier = [*earlier[-20:], tokens[:30]]
        yield Prompt(Namespace(rng.choice(namespaces)), tokens)

"""The known attack on shared prefix caches: guess another tenant's prompt block by block, from what comes back.

The victim sends one of several secrets of equal length; all else is equal. A tenant's view must be the same in all
these worlds, to the last count, so whatever score the attacker makes of it tells the worlds apart no better than a coin
(area under the curve 0.5). The same attack from within the victim's tenant is the control: it must find the secret.
Time to first token is measured in ``benchmarks/cache/timing_attack.py``.
"""

import random
from collections.abc import Sequence
from dataclasses import asdict

import pytest
from tests.kvcache.serving import Prompt, Serving, random_prompts

from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.events import BlockRemoved, BlockStored, CacheEvent
from anaphora.kvcache.eviction import EVICTION_POLICIES
from anaphora.kvcache.manager import KVCacheManager
from anaphora.kvcache.stats import CacheStats
from anaphora.types import Namespace

POLICIES = sorted(EVICTION_POLICIES)
BLOCK = 4
VICTIM, ATTACKER = Namespace("victim"), Namespace("attacker")
CANDIDATES = tuple((word,) * BLOCK for word in range(5))
"""What a block of the secret may be: the attacker knows these."""
NUM_SECRET_BLOCKS = 5
SECRETS = tuple(tuple(random.Random(seed).choice(CANDIDATES) for _ in range(NUM_SECRET_BLOCKS)) for seed in range(4))
PROBE = 999
View = tuple[object, ...]


class World:
    """A cache in which the victim has sent a secret, and goes on sending other things."""

    def __init__(self, policy: str, num_blocks: int, secret: Sequence[tuple[int, ...]]) -> None:
        self.events: list[CacheEvent] = []
        config = CacheConfig(num_blocks=num_blocks, block_size=BLOCK, eviction_policy=policy)
        self.cache = KVCacheManager(config, listener=self.events.append)
        self._serving = Serving(self.cache)
        tokens = tuple(token for block in secret for token in block)
        self._running, _, _ = self._serving.begin(Prompt(VICTIM, (*tokens, 77)))
        self._serving.serve(Prompt(VICTIM, (*tokens, 77, 78, 79, 80, 81)))
        self._noise = random_prompts(5, 1000, (VICTIM, "somebody"))

    def attack(self, namespace: Namespace) -> tuple[list[tuple[int, ...]], list[View]]:
        """Find the secret block by block: the guess, and all that the attacker saw."""
        guess: list[tuple[int, ...]] = []
        views: list[View] = []
        for _ in range(NUM_SECRET_BLOCKS):
            scores = []
            for candidate in CANDIDATES:
                tokens = tuple(token for block in (*guess, candidate) for token in block)
                cached, view = self._probe(Prompt(namespace, (*tokens, PROBE)))
                scores.append(cached)
                views.append(view)
            guess.append(CANDIDATES[scores.index(max(scores))])
        return guess, views

    def finish(self) -> None:
        self.cache.free(self._running)

    def _probe(self, prompt: Prompt) -> tuple[int, View]:
        """Ask without leaving anything behind that later answers could be read from: no probe repeats itself."""
        noise = next(self._noise)
        self._serving.serve(noise._replace(tokens=tuple(token + 100 for token in noise.tokens)))
        name, ledger, is_there = self._serving.begin(prompt)
        if is_there:
            self.cache.free(name)
            self.cache.stats.count(ledger)
        own = ledger.for_tenant()
        return own.num_cached_tokens, (own, is_there, self.cache.usage, visible(self.cache.stats))


def visible(stats: CacheStats) -> View:
    """The counters that may be shown to everybody: all but the operator's view of the ledgers."""
    assert sum(stats.num_tokens_by_tenant_reason.values()) == stats.num_prompt_tokens
    return tuple(value for name, value in asdict(stats).items() if name != "num_tokens_by_reason")


def outline(events: Sequence[CacheEvent]) -> list[tuple[str, int | None]]:
    """Which blocks were stored and evicted, in which order, without what is in them."""
    return [
        (type(event).__name__, event.block_id if isinstance(event, BlockStored | BlockRemoved) else None)
        for event in events
    ]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("secret", SECRETS)
def test_within_the_tenant_the_attack_finds_the_secret(policy: str, secret: tuple[tuple[int, ...], ...]) -> None:
    """The control: without it the tests below could pass on an attack that never finds anything."""
    world = World(policy, 400, secret)
    guess, _ = world.attack(VICTIM)
    assert tuple(guess) == secret


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("num_blocks", [18, 30, 400])
def test_from_another_tenant_all_worlds_look_the_same(policy: str, num_blocks: int) -> None:
    """Also where the pool is so small that the attacker's own blocks are evicted: the order tells nothing either."""
    worlds = [World(policy, num_blocks, secret) for secret in SECRETS]
    found = [world.attack(ATTACKER) for world in worlds]
    assert all(guess_and_views == found[0] for guess_and_views in found)
    for world in worlds:
        world.finish()
        world.cache.check_integrity()
        assert outline(world.events) == outline(worlds[0].events)
    assert (worlds[0].cache.stats.num_evicted_blocks > 0) is (num_blocks < 400)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(6))
def test_another_tenants_words_change_nothing(policy: str, seed: int) -> None:
    """Random conversations of two tenants; in the second world one of them says everything in other words."""
    num_blocks = (10, 16, 40)[seed % 3]
    views = []
    for words in (range(3), (4_000_000_000, 0, 17)):
        events: list[CacheEvent] = []
        config = CacheConfig(num_blocks=num_blocks, block_size=2, eviction_policy=policy)
        serving = Serving(KVCacheManager(config, listener=events.append))
        seen = []
        for prompt in random_prompts(seed, 80, (VICTIM, ATTACKER)):
            if prompt.namespace == VICTIM:
                serving.serve(prompt._replace(tokens=tuple(words[token] for token in prompt.tokens)))
            else:
                seen.append(serving.serve(prompt).for_tenant())
        views.append((seen, outline(events), serving.cache.stats.num_evicted_blocks))
    assert views[0] == views[1]
    assert sum(ledger.num_cached_tokens for ledger in views[0][0]) > 0

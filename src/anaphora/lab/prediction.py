"""The third witness: what the cache core itself would serve, asked before anything is sent."""

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from anaphora.errors import ConfigError
from anaphora.lab.arms import Mechanism, Trial
from anaphora.lab.runner import Expected
from anaphora.lab.slots import SlotCache
from anaphora.lab.targets.base import ChatRequest, PromptTokenizer
from anaphora.sim.predict import CacheConfig, predict
from anaphora.types import Namespace

DEFAULT_BLOCK_SIZE = 16
LEAST_RECENTLY_USED = "lru"


def block_size_of(settings: Mapping[str, Any]) -> int:
    """The block size that a server publishes, else the usual one; a server that keeps prompts in slots has none."""
    return 1 if num_slots_of(settings) else _positive(settings.get("block_size")) or DEFAULT_BLOCK_SIZE


async def expect(
    trials: Sequence[Trial], tokenizer: PromptTokenizer, *, mechanism: Mechanism, cache: Mapping[str, Any]
) -> list[Expected]:
    """For each trial, in the order of sending, its prompt's tokens and how many of them should be served from the
    cache.

    ``cache``: what the server publishes of its settings. Where it does not tell its size, a cache is assumed in which
    nothing need be evicted.
    """
    ids = await _token_ids(trials, tokenizer)
    if ids is None:
        return [Expected() for _ in trials]
    looked_up = [number for number, trial in enumerate(trials) if trial.arm == "on" or not mechanism.is_by_flag]
    num_slots = num_slots_of(cache)
    lives = _lives(trials, restarts=mechanism is Mechanism.RESTART)
    counts = (
        _from_blocks(trials, ids, looked_up, cache, lives)
        if num_slots is None
        else _from_slots(trials, ids, looked_up, num_slots, lives)
    )
    cached = dict(zip(looked_up, counts, strict=True))
    return [Expected(len(tokens), cached.get(number, 0)) for number, tokens in enumerate(ids)]


def _from_slots(
    trials: Sequence[Trial], ids: Sequence[list[int]], looked_up: Sequence[int], num_slots: int, lives: Sequence[int]
) -> list[int]:
    slots = {life: SlotCache(num_slots) for life in lives}
    return [slots[lives[n]].serve(ids[n], trials[n].request.max_tokens) for n in looked_up]


def _from_blocks(
    trials: Sequence[Trial],
    ids: Sequence[list[int]],
    looked_up: Sequence[int],
    cache: Mapping[str, Any],
    lives: Sequence[int],
) -> list[int]:
    block_size = block_size_of(cache)
    enough = sum(
        (len(tokens) + trial.request.max_tokens) // block_size + 2 for tokens, trial in zip(ids, trials, strict=True)
    )
    config = cache_config(cache, num_blocks_of(cache) or enough)
    namespaces = [
        Namespace(f"{life}/{trial.request.cache_salt or ''}") for life, trial in zip(lives, trials, strict=True)
    ]
    ledgers = predict([(namespaces[n], ids[n], trials[n].request.max_tokens) for n in looked_up], config)
    return [ledger.num_cached_tokens for ledger in ledgers]


def _lives(trials: Sequence[Trial], *, restarts: bool) -> list[int]:
    """The number of the cache's life in which each is served: a reset begins another one, and so does a start, where
    each change of arms is one."""
    changes = [restarts and a.arm != b.arm for a, b in pairwise([*trials[:1], *trials])]
    begun = (int(trial.reset_before or change) for trial, change in zip(trials, changes, strict=True))
    return list(accumulate(begun))


def num_blocks_of(settings: Mapping[str, Any]) -> int | None:
    """How many blocks a server publishes to have; ``None`` where it does not tell."""
    return _positive(settings.get("num_gpu_blocks"))


def cache_config(settings: Mapping[str, Any], num_blocks: int) -> CacheConfig:
    """A cache of so many blocks, with the block size and the policy that the server publishes. A policy that we do not
    have is taken for the usual one."""
    block_size, policy = block_size_of(settings), str(settings.get("eviction_policy", LEAST_RECENTLY_USED))
    try:
        return CacheConfig(num_blocks=num_blocks, block_size=block_size, eviction_policy=policy)
    except ConfigError:
        return CacheConfig(num_blocks=num_blocks, block_size=block_size, eviction_policy=LEAST_RECENTLY_USED)


async def _token_ids(trials: Sequence[Trial], tokenizer: PromptTokenizer) -> list[list[int]] | None:
    known: dict[str, list[int]] = {}
    for trial in trials:
        key = _key(trial.request)
        if key not in known:
            ids = await tokenizer.chat_token_ids(trial.request.messages, trial.request.tools)
            if ids is None:
                return None
            known[key] = ids
    return [known[_key(trial.request)] for trial in trials]


def _key(request: ChatRequest) -> str:
    return json.dumps([request.messages, request.tools])


def num_slots_of(settings: Mapping[str, Any]) -> int | None:
    """In how many slots a server keeps whole prompts; ``None`` for one that keeps blocks."""
    return _positive(settings.get("num_slots"))


def _positive(value: object) -> int | None:
    """A count from a metrics label, which is text and may be ``None`` in words."""
    text = str(value)
    return int(text) if text.isdigit() and int(text) > 0 else None

"""Eviction policies where traffic is unkind: tiny pools, giants, loops, habits that change. A number is a block."""

from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.eviction import DEFAULT_POLICY, EVICTION_POLICIES, default
from anaphora.sim.cache_replay import CacheReplay, EngineCounts, count_by_engine_rule
from anaphora.sim.prefix_paths import next_uses, paths_of
from anaphora.sim.prompt_blocks import PromptBlocks, cut_into_blocks
from anaphora.traces.request import TokenPrompt, Trace, TraceRequest

every_policy = pytest.mark.parametrize("policy", EVICTION_POLICIES)


def prompts_of(paths: Iterable[Sequence[int]], num_answer_tokens: int = 100) -> list[PromptBlocks]:
    """Blocks of two tokens, and the token that must be computed."""
    requests = tuple(
        TraceRequest(
            line=line,
            arrival_s=None,
            prompt=TokenPrompt(array("I", [*(token for number in path for token in (number, number)), 0])),
            num_output_tokens=num_answer_tokens,
        )
        for line, path in enumerate(paths, 1)
    )
    return cut_into_blocks(Trace(Path("made"), "token-ids", None, len(requests), requests, ()), 2)


def replayed(prompts: Sequence[PromptBlocks], policy: str, num_blocks: int) -> EngineCounts:
    config = CacheConfig(num_blocks=num_blocks, block_size=2, eviction_policy=policy)
    return count_by_engine_rule(prompts, config, None, lambda num_done: None)


def hits(prompts: Sequence[PromptBlocks], policy: str, num_blocks: int) -> list[int]:
    """Cached blocks of each prompt, in a cache that is whole after every one."""
    replay = CacheReplay(CacheConfig(num_blocks=num_blocks, block_size=2, eviction_policy=policy))
    found: list[int] = []
    for prompt in prompts:
        found.append(replay.ask(prompt).num_cached_tokens // 2)
        replay.manager.check_integrity()
    return found


PATHS = st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=6), min_size=1, max_size=25)


@every_policy
@pytest.mark.parametrize("num_blocks", [1, 2, 12])
@settings(max_examples=20, deadline=None, derandomize=True)
@given(paths=PATHS)
def test_in_a_tiny_pool_nothing_breaks_and_nothing_beats_the_bound(
    policy: str, num_blocks: int, paths: list[list[int]]
) -> None:
    prompts = prompts_of(paths)
    config = CacheConfig(num_blocks=num_blocks, block_size=2)
    future = next_uses(paths_of(prompts), [prompt.num_reusable_blocks for prompt in prompts])
    bound = count_by_engine_rule(prompts, config, future, lambda num_done: None)
    found = hits(prompts, policy, num_blocks)
    assert 2 * sum(found) <= bound.num_cached_tokens
    assert found == hits(prompts, policy, num_blocks)


@pytest.mark.parametrize("rule", [CacheReplay.ask, CacheReplay.ask_by_trace_rule])
def test_the_default_learns_by_either_rule_of_counting(
    rule: Callable[[CacheReplay, PromptBlocks], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chats come back when LRU has evicted them, documents never do."""
    monkeypatch.setattr(default, "MIN_RETURNS", 20)
    block_size = 2 if rule is CacheReplay.ask else 1
    replay = CacheReplay(CacheConfig(num_blocks=100, block_size=block_size, eviction_policy=DEFAULT_POLICY))
    num_found = 0
    for number in range(300):
        for path in ([number], [1000 + number, *range(8)], [number - 15] if number >= 15 else []):
            [prompt] = prompts_of([path])
            before = replay.manager.match(
                prompt.namespace, prompt.for_engine() if block_size == 2 else prompt.for_trace_rule()
            )
            num_found += bool(path and before.num_blocks)
            rule(replay, prompt)
    replay.manager.check_integrity()
    assert num_found > 100


@every_policy
def test_the_beginning_of_a_giant_outlives_its_end(policy: str) -> None:
    giant, small = range(1000), [2000, 2001]
    prompts = prompts_of([giant, giant, small, giant])
    assert hits(prompts, policy, 12) == [0, 12, 0, 9]  # two blocks of the small one, and its tail's


@every_policy
def test_a_giant_takes_what_it_needs_and_no_more(policy: str) -> None:
    prompts = prompts_of([[1, 2, 3], [*range(10, 18)], [1, 2, 3]])
    assert hits(prompts, policy, 12) == [0, 0, 3]  # 3 blocks stay cached, 9 are needed


@every_policy
def test_of_prompts_without_anything_in_common_each_is_cached_once_and_evicted_once(policy: str) -> None:
    counts = replayed(prompts_of([[3 * n, 3 * n + 1, 3 * n + 2] for n in range(1000)]), policy, 50)
    assert counts.num_cached_tokens == 0
    assert counts.num_evicted_blocks == 3 * 1000 - 49  # the pool is full but for the last one's tail


def test_a_loop_that_is_a_little_too_long() -> None:
    """The worst case of whoever goes by recency: what was used longest ago is what will be used next."""
    prompts = prompts_of([[n] for _ in range(40) for n in range(22)])
    found = {policy: replayed(prompts, policy, 20).num_cached_tokens // 2 for policy in EVICTION_POLICIES}
    assert found["lru"] == found["fifo"] == 0
    assert found[DEFAULT_POLICY] >= found["lru"]


def chats_and_documents(num_rounds: int, first: int, *, short_ones_return: bool) -> list[list[int]]:
    """Of one block and of sixteen. Either chats return, twenty rounds later, or documents, five rounds later."""
    lag = 20 if short_ones_return else 5
    paths: list[list[int]] = []
    for number in range(num_rounds):
        chat, document = first + 100 * number, first + 100 * number + 50
        paths += [[chat], [*range(document, document + 16)]]
        if number >= lag:
            again = first + 100 * (number - lag)
            paths.append([again] if short_ones_return else [*range(again + 50, again + 66)])
    return paths


def test_what_was_learnt_is_unlearnt_when_habits_turn_round() -> None:
    by_day = chats_and_documents(1500, 0, short_ones_return=True)
    by_night = chats_and_documents(1500, 10**6, short_ones_return=False)
    prompts = prompts_of([*by_day, *by_night])
    late_by_day, late_by_night = slice(len(by_day) // 2, len(by_day)), slice(-len(by_night) // 2, None)
    lru, ours = (hits_of_many(prompts, policy) for policy in ("lru", DEFAULT_POLICY))
    assert sum(lru[late_by_day]) == 0  # twenty documents are more than there is room for
    assert sum(ours[late_by_day]) > 700  # of 750 chats that return by then
    assert sum(lru[late_by_night]) == sum(ours[late_by_night]) > 16 * 700


def hits_of_many(prompts: Sequence[PromptBlocks], policy: str) -> list[int]:
    """Without a look at the whole cache after each of many."""
    replay = CacheReplay(CacheConfig(num_blocks=200, block_size=2, eviction_policy=policy))
    found = [replay.ask(prompt).num_cached_tokens // 2 for prompt in prompts]
    replay.manager.check_integrity()
    return found


def test_what_a_tenant_who_left_has_left_behind_goes_too() -> None:
    """It always came back while he was there. Another's prompts never do, and yet they take his room in the end."""
    his = [[n // 4 % 10 + 1] for n in range(4000)]
    replay = CacheReplay(CacheConfig(num_blocks=100, block_size=2))
    for prompt in prompts_of(his):
        replay.ask(prompt)
    for prompt in prompts_of([[10**6 + 2 * n, 10**6 + 2 * n + 1] for n in range(1000)]):
        replay.ask(prompt)
    for prompt in prompts_of([[n] for n in range(1, 11)]):
        assert replay.ask(prompt).num_cached_tokens == 0

"""The comparison with vLLM, but for vLLM: the plain caches stand in for it."""

import json
from collections.abc import Callable

import pytest
from benchmarks.cache.against_vllm import OurCache, Played, play_here, summarise
from benchmarks.cache.plain_cache import KeepsDuplicates, StoresOnce
from benchmarks.cache.schedules import Outcome, Player, Schedule, ScheduledCache, make_schedule

BLOCK = 16


def schedule(num_blocks: int, *steps: list[list[object]]) -> Schedule:
    return {"seed": 0, "num_blocks": num_blocks, "steps": list(steps)}


def admit(name: str, tokens: list[int]) -> list[object]:
    return ["admit", name, "", tokens, 1000]


def played(plan: Schedule, vllm: list[Outcome] | None = None) -> Played:
    ours, once, twice = (play_here(make, [plan])[0] for make in (OurCache, StoresOnce, KeepsDuplicates))
    return Played(plan, ours, twice if vllm is None else vllm, once, twice)


A, B = [1] * BLOCK * 2, [2] * BLOCK * 2
X, Y = [3] * BLOCK, [4] * BLOCK

TWIN_COSTS_A_BLOCK = schedule(
    6,
    [admit("x", X)],
    [["free", "x"]],
    [admit("a", A), admit("twin", A)],  # the second block is computed twice: the first alone can be shared
    [["free", "a"], ["free", "twin"]],
    [admit("b", B)],
    [["free", "b"]],
    [admit("y", Y)],  # there is a blank block left for it only if A has two
    [["free", "y"]],
    [admit("again", [*X, 0])],
)


@pytest.mark.parametrize("seed", range(60))
def test_our_cache_stores_once_on_random_schedules(seed: int) -> None:
    plan = make_schedule(seed)
    ours, once = (play_here(make, [plan])[0] for make in (OurCache, StoresOnce))
    assert [outcome[:2] for outcome in ours] == [outcome[:2] for outcome in once]


@pytest.mark.parametrize("make", [OurCache, StoresOnce, KeepsDuplicates])
def test_a_whole_prompt_again_computes_its_last_block(make: Callable[[int], ScheduledCache]) -> None:
    prompt = list(range(160))
    plan = schedule(100, [admit("a", prompt)], [["free", "a"]], [admit("again", prompt)])
    assert [outcome.cached for outcome in play_here(make, [plan])[0]] == [0, None, 144]


@pytest.mark.parametrize("make", [OurCache, StoresOnce, KeepsDuplicates])
def test_a_small_pool_keeps_the_head_of_a_prompt(make: Callable[[int], ScheduledCache]) -> None:
    """12 blocks, a prompt of 10, another of 4, and the first again: 8 blocks of it are left."""
    a, b = list(range(160)), list(range(1000, 1064))
    steps: list[list[list[object]]] = [
        [admit("a", a)],
        [["free", "a"]],
        [admit("b", b)],
        [["free", "b"]],
        [admit("again", a)],
    ]
    outcomes = play_here(make, [schedule(12, *steps)])[0]
    assert outcomes[-1].cached == 128


def test_schedules_are_the_same_for_the_same_seed_and_survive_json() -> None:
    assert make_schedule(5) == make_schedule(5) == json.loads(json.dumps(make_schedule(5)))
    assert make_schedule(5) != make_schedule(6)


def test_schedules_have_hits_refusals_preemptions_and_resets() -> None:
    """A comparison of empty caches would prove nothing."""
    plans = [make_schedule(seed) for seed in range(60)]
    kinds = [kind for plan in plans for step in plan["steps"] for kind, *_ in step]
    outcomes = [outcome for one in play_here(StoresOnce, plans) for outcome in one]
    done = {(kind, outcome.done) for kind, outcome in zip(kinds, outcomes, strict=True)}
    assert {("admit", True), ("admit", False), ("grow", False), ("grow", None), ("reset", True)} <= done
    admitted = [outcome.cached for outcome in outcomes if outcome.cached is not None]
    assert sum(cached > 0 for cached in admitted) > len(admitted) / 3


def test_a_difference_behind_a_duplicate_is_traced_to_it() -> None:
    one = played(TWIN_COSTS_A_BLOCK)
    assert one.first_duplicate == 2
    last = len(one.ours) - 1
    assert (one.ours[last].cached, one.vllm[last].cached) == (16, 0)
    assert one.differences == [last]
    assert one.follows_plain_caches
    assert one.untraced == []


def test_a_difference_without_a_duplicate_is_untraced() -> None:
    plan = schedule(6, [admit("a", A)], [["free", "a"]], [admit("again", [*A, 0])])
    outcomes = Player(KeepsDuplicates(6)).play(plan)
    assert played(plan).untraced == []
    assert played(plan, [*outcomes[:-1], outcomes[-1]._replace(cached=16)]).untraced == [2]


def test_a_difference_that_the_plain_caches_do_not_show_is_untraced_though_a_duplicate_is_there() -> None:
    outcomes = Player(KeepsDuplicates(6)).play(TWIN_COSTS_A_BLOCK)
    last = len(outcomes) - 1
    strange = [*outcomes[:-1], outcomes[-1]._replace(cached=32)]
    assert played(TWIN_COSTS_A_BLOCK, strange).untraced == [last]


def test_the_summary_counts_requests_before_and_behind_the_first_duplicate() -> None:
    alone = schedule(6, [admit("a", A)], [admit("b", [*A, 0])])
    summary = summarise([played(alone), played(TWIN_COSTS_A_BLOCK)])
    assert summary["num_schedules_without_duplicates"] == 1
    assert summary["num_schedules_that_follow_the_plain_caches"] == 2
    assert summary["num_differing_operations"] == 1
    assert summary["untraced"] == []
    before, behind = (summary["requests"][part] for part in ("no_duplicate_yet", "after_a_duplicate"))
    assert (before["requests"], before["equal"], before["cached_tokens_vllm"]) == (3, 3, 32)
    assert (behind["requests"], behind["equal"], behind["ours_more"], behind["vllm_more"]) == (5, 4, 1, 0)
    assert behind["cached_tokens_ours"] - behind["cached_tokens_vllm"] == 16

"""Answers that a trace tells are cached with their prompts, as the engine caches them."""

import json
import random
from pathlib import Path

import pytest

from anaphora.kvcache.config import CacheConfig
from anaphora.sim.cache_replay import CacheReplay
from anaphora.sim.predict import Replay, SimulatedRequest
from anaphora.sim.prompt_blocks import PromptBlocks, cut_into_blocks
from anaphora.sim.sweep import RunPlan, Sweep
from anaphora.traces.reader import read_trace


def prompts_of(path: Path, rows: list[dict[str, object]], block_size: int) -> list[PromptBlocks]:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return cut_into_blocks(read_trace(path), block_size)


def conversations(seed: int, num: int = 80) -> list[dict[str, object]]:
    """Turns that continue earlier prompts and their answers, or begin anew, of two tenants."""
    chance = random.Random(seed)
    histories: list[list[int]] = [[]]
    rows: list[dict[str, object]] = []
    for _ in range(num):
        history = chance.choice(histories[-6:])
        prompt = [*history, *(chance.randrange(50) for _ in range(chance.randrange(1, 14)))]
        answer = [chance.randrange(50) for _ in range(chance.randrange(0, 12))]
        rows.append({"token_ids": prompt, "output_token_ids": answer, "namespace": chance.choice(["", "", "b"])})
        histories.append([*prompt, *answer] if len(prompt) < 60 else [])
    return rows


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("policy", ["lru", "return-rate", "s3fifo"])
def test_ledgers_are_those_of_the_scheduler(tmp_path: Path, seed: int, policy: str) -> None:
    rows = conversations(seed)
    config = CacheConfig(num_blocks=40, block_size=4, eviction_policy=policy)
    prompts = prompts_of(tmp_path / "trace.jsonl", rows, 4)
    replay = CacheReplay(config)
    ledgers = []
    for prompt in prompts:
        ledgers.append(replay.ask(prompt))
        replay.manager.check_integrity()
    scheduled = Replay(config)
    assert ledgers == scheduled.run_in_sequence(
        SimulatedRequest(prompt.namespace, prompt.token_ids(), prompt.answer or []) for prompt in prompts
    )
    assert replay.manager.stats.num_evicted_blocks == scheduled.scheduler.cache.stats.num_evicted_blocks > 0


def test_a_follow_up_finds_the_answer(tmp_path: Path) -> None:
    prompt, answer = [*range(6)], [*range(100, 107)]
    rows: list[dict[str, object]] = [
        {"token_ids": prompt, "output_token_ids": answer},
        {"token_ids": [*prompt, *answer, 9, 9, 9, 9]},
    ]
    prompts = prompts_of(tmp_path / "trace.jsonl", rows, 4)
    for num_blocks, cached in ((None, 12), (3, 12), (4, 12)):  # 13 tokens are known, the last is never computed
        run = Sweep(prompts).run(RunPlan("lru", num_blocks), lambda num_done: None)
        assert run.engine.num_cached_tokens == cached
        assert run.trace_rule.num_hit_blocks == 1, "the traces' rule is about prompts"


def test_an_answer_that_does_not_fit_is_cached_as_far_as_it_does(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"token_ids": [1] * 6, "output_token_ids": [2] * 40}] * 2
    (first, again) = prompts_of(tmp_path / "trace.jsonl", rows, 4)
    replay = CacheReplay(CacheConfig(num_blocks=3, block_size=4))
    assert [replay.ask(prompt).num_cached_tokens for prompt in (first, again)] == [0, 4]
    replay.manager.check_integrity()


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_knows_the_answers(tmp_path: Path, seed: int) -> None:
    prompts = prompts_of(tmp_path / "trace.jsonl", conversations(seed), 4)
    cached = [
        Sweep(prompts).run(RunPlan(policy, num_blocks), lambda num_done: None).engine.num_cached_tokens
        for policy, num_blocks in (("lru", 40), ("belady", 40), ("lru", None))
    ]
    assert cached == sorted(cached)
    assert cached[0] < cached[2]

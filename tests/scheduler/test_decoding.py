"""How many decode steps can be taken at once, and what they leave. The simulator's tests compare whole timelines."""

import pytest
from tests.scheduler.bench import Bench

from anaphora.kvcache.config import CacheConfig
from anaphora.scheduler.config import SchedulerConfig
from anaphora.types import RequestId

A, B = RequestId("a"), RequestId("b")


def bench(num_blocks: int = 20, max_num_seqs: int = 8, max_num_batched_tokens: int = 8) -> Bench:
    limits = SchedulerConfig(max_num_seqs=max_num_seqs, max_num_batched_tokens=max_num_batched_tokens, max_model_len=60)
    return Bench(limits, CacheConfig(num_blocks=num_blocks, block_size=4))


def test_up_to_the_last_step_of_the_first_that_ends() -> None:
    made = bench()
    assert made.scheduler.num_decode_steps() == 0, "nobody is here"
    made.add("a", [1, 2], 9)
    made.add("b", [3, 4, 5], 30)
    assert made.scheduler.num_decode_steps() == 0, "they wait"
    made.step()
    assert made.scheduler.num_decode_steps() == 7
    made.scheduler.decode({A: [7] * 7, B: [8] * 7})
    made.scheduler.check_integrity()
    assert (made.scheduler.stats.num_steps, made.scheduler.stats.num_computed_tokens) == (8, 5 + 14)
    assert made.requests["b"].output_token_ids == [7, *[8] * 7]
    assert made.scheduler.num_decode_steps() == 0
    assert made.update(made.schedule()) == ["a"]
    assert made.scheduler.num_decode_steps() == 20
    assert [table.num_indexed for table in made.scheduler.cache.tables.values()] == [(3 + 8) // 4]


def test_the_longest_that_a_request_may_be_is_an_end_too() -> None:
    made = bench()
    made.add("a", [1, 2], 100)
    made.step()
    assert made.scheduler.num_decode_steps() == 60 - 3 - 1


@pytest.mark.parametrize("stop", [frozenset({5}), frozenset()])
def test_who_may_end_with_any_token_is_asked_each_time(stop: frozenset[int]) -> None:
    made = bench()
    made.add("a", [1, 2], 9, stop=stop)
    made.step()
    assert made.scheduler.num_decode_steps() == (0 if stop else 7)


def test_not_while_a_prompt_is_computed() -> None:
    made = bench(max_num_batched_tokens=4)
    made.add("a", [1, 2, 3, 4, 5], 9)
    made.step()  # the prompt's last token alone is left
    assert made.scheduler.num_decode_steps() == 0
    made.step()
    assert made.scheduler.num_decode_steps() == 7


def test_not_while_somebody_waits_who_might_be_admitted() -> None:
    made = bench(max_num_seqs=1)
    made.add("a", [1, 2], 9)
    made.step()
    made.add("b", [1, 2], 9)
    assert made.scheduler.num_decode_steps() == 7, "there is no seat"
    made = bench()
    made.add("a", [1, 2], 9)
    made.step()
    made.add("b", [1, 2], 9)
    assert made.scheduler.num_decode_steps() == 0


def test_not_where_blocks_would_run_out() -> None:
    made = bench(num_blocks=4)
    made.add("a", [1, 2], 9)
    made.add("b", [3, 4], 9)
    made.step()
    assert made.scheduler.num_decode_steps() == 0

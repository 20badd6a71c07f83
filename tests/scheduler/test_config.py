import pytest

from anaphora.errors import ConfigError
from anaphora.scheduler.config import SchedulerConfig


@pytest.mark.parametrize("name", ["max_num_seqs", "max_num_batched_tokens", "max_model_len"])
def test_limits_are_at_least_one(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} must be at least 1, got 0"):
        SchedulerConfig(**({"max_model_len": 8} | {name: 0}))  # type: ignore[arg-type]


def test_without_chunked_prefill_a_step_must_have_room_for_the_longest_prompt() -> None:
    SchedulerConfig(max_model_len=8, max_num_batched_tokens=8, enable_chunked_prefill=False)
    with pytest.raises(ConfigError, match=r"max_num_batched_tokens \(7\) must be at least max_model_len \(8\)"):
        SchedulerConfig(max_model_len=8, max_num_batched_tokens=7, enable_chunked_prefill=False)


def test_a_target_is_not_negative() -> None:
    with pytest.raises(ConfigError, match="target_prefill_tokens must be at least 0, got -1"):
        SchedulerConfig(max_model_len=8, target_prefill_tokens=-1)

"""Case 08: cached tokens that are null, missing, zero, or named otherwise."""

import json
from pathlib import Path

import pytest

from anaphora.lab.usage import UNKNOWN_USAGE, Usage, read_usage, server_ttft_ms

FOLDER = Path(__file__).parents[1] / "data" / "cases" / "08-usage-null-and-deepseek"
LINES = [json.loads(line) for line in (FOLDER / "usage.jsonl").read_text("utf-8").splitlines()]
EXPECTED = json.loads((FOLDER / "expected.json").read_text("utf-8"))


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["id"])
def test_unknown_is_not_zero(line: dict[str, dict[str, object] | None]) -> None:
    usage = read_usage(line["usage"])
    assert usage.num_cached_tokens == EXPECTED["cached"][line["id"]]
    assert usage.num_prompt_tokens == EXPECTED["prompt"][line["id"]]


def test_anthropic_leaves_cached_tokens_out_of_its_input() -> None:
    usage = {
        "input_tokens": 50,
        "cache_read_input_tokens": 1000,
        "cache_creation_input_tokens": 200,
        "output_tokens": 7,
    }
    assert read_usage(usage) == Usage(1250, 7, 1000, 200)
    assert read_usage({"input_tokens": 50, "cache_read_input_tokens": None}) == Usage(50, None, None)


@pytest.mark.parametrize(
    "nonsense", [None, {}, {"prompt_tokens": "12"}, {"prompt_tokens": -1}, {"prompt_tokens": True}]
)
def test_nonsense_is_unknown(nonsense: dict[str, object] | None) -> None:
    assert read_usage(nonsense) == UNKNOWN_USAGE


def test_a_gateway_that_adds_anthropics_names_to_a_whole_count_is_not_counted_twice() -> None:
    usage = {
        "prompt_tokens": 1250,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 1000},
        "cache_read_input_tokens": 1000,
        "cache_creation_input_tokens": 200,
    }
    assert read_usage(usage) == Usage(1250, 7, 1000, 200)


def test_written_tokens_are_read_where_a_service_counts_them() -> None:
    details = {"cached_tokens": 0, "cache_write_tokens": 1024}
    assert read_usage({"prompt_tokens": 1100, "prompt_tokens_details": details}) == Usage(1100, None, 0, 1024)
    assert read_usage({"input_tokens": 1100, "input_tokens_details": details}) == Usage(1100, None, 0, 1024)


def test_timings_stand_in_where_usage_is_silent_and_nowhere_else() -> None:
    timings = {"prompt_n": 12, "cache_n": 88, "predicted_n": 5, "prompt_ms": 31.5}
    assert read_usage({"timings": timings}) == Usage(100, 5, 88)
    silent = {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": None, "timings": timings}
    assert read_usage(silent) == Usage(100, 5, 88)
    assert read_usage({**silent, "prompt_tokens_details": {"cached_tokens": 0}}) == Usage(100, 5, 0)


def test_the_servers_own_first_token_time_is_the_sum_of_its_parts_or_unknown() -> None:
    assert server_ttft_ms({"timings": {"prompt_ms": 31.5}}) == 31.5
    assert server_ttft_ms({"metrics": {"queue_time_ms": 2.0, "time_to_first_token_ms": 40}}) == 42.0
    assert server_ttft_ms({"metrics": {"time_to_first_token_ms": 40}}) is None
    assert server_ttft_ms({"metrics": None, "timings": {"prompt_ms": True}}) is None
    assert server_ttft_ms(None) is None

"""Case 08: cached tokens that are null, missing, zero, or named otherwise."""

import json
from pathlib import Path

import pytest

from anaphora.lab.usage import UNKNOWN_USAGE, Usage, read_usage

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
    assert read_usage(usage) == Usage(1250, 7, 1000)
    assert read_usage({"input_tokens": 50, "cache_read_input_tokens": None}) == Usage(50, None, None)


@pytest.mark.parametrize(
    "nonsense", [None, {}, {"prompt_tokens": "12"}, {"prompt_tokens": -1}, {"prompt_tokens": True}]
)
def test_nonsense_is_unknown(nonsense: dict[str, object] | None) -> None:
    assert read_usage(nonsense) == UNKNOWN_USAGE

"""What real servers answered, once recorded, says the same today."""

import json
from pathlib import Path
from typing import Any

import pytest

from anaphora.lab.probe.block_size import Parting, block_size_of
from anaphora.lab.probe.held_back import Repeated, rules_that_fit

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results" / "servers"


def requests(server: str, step: str) -> list[dict[str, Any]]:
    kept = json.loads((RESULTS / server / "probe.json").read_text("utf-8"))
    return [asked for asked in kept["requests"] if asked["step"] == step]


@pytest.mark.parametrize(
    ("server", "block_size", "always", "rule"),
    [
        ("vllm", 128, 0, "the last token, with its block"),
        ("llama.cpp", 1, 3, "the last token, with its block"),
    ],
)
def test_steps_and_what_is_held_back(server: str, block_size: int, always: int, rule: str) -> None:
    partings = [
        Parting(asked["num_shared_words"], asked["num_cached_tokens"])
        for asked in requests(server, "block_size")
        if asked["num_shared_words"] is not None
    ]
    found = block_size_of(partings, num_always_cached=always)
    assert found is not None
    assert found.value == block_size
    last = {asked["name"]: asked for asked in requests(server, "held_back")}
    sent = [asked["name"] for asked in requests(server, "held_back")]
    repeated = [
        Repeated(asked["num_prompt_tokens"], asked["num_cached_tokens"])
        for name, asked in last.items()
        if sent.count(name) == 2
    ]
    assert repeated
    assert rules_that_fit(repeated, block_size) == [rule]


@pytest.mark.parametrize(
    ("server", "low", "high", "unit"), [("vllm", 64 * 128, 64 * 128, "tokens"), ("llama.cpp", 4, 4, "prompts")]
)
def test_capacity_is_what_the_server_was_started_with(server: str, low: int, high: int, unit: str) -> None:
    capacity = json.loads((RESULTS / server / "probe.json").read_text("utf-8"))["findings"]["capacity"]
    assert capacity["unit"] == unit
    assert (capacity["low"] or capacity["value"]) <= low
    assert (capacity["high"] or capacity["value"]) >= high

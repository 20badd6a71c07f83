"""The third witness, told by the server how large its cache is and what goes first."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from anaphora.lab.arms import Mechanism, Trial
from anaphora.lab.prediction import block_size_of, expect
from anaphora.lab.targets.base import ChatRequest, Message, Tool


class LettersAreTokens:
    async def text_token_ids(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]

    async def count_text(self, text: str) -> int:
        return len(text)

    async def chat_token_ids(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int]:
        return list("".join(message["content"] for message in messages).encode())


def cached_tokens(prompts: Sequence[str], cache: Mapping[str, Any]) -> list[int | None]:
    requests = [ChatRequest(messages=({"role": "user", "content": prompt},), max_tokens=1) for prompt in prompts]
    trials = [
        Trial(experiment="switch", arm="on", phase="measured", group=0, index=index, label="", request=request)
        for index, request in enumerate(requests)
    ]
    expected = asyncio.run(expect(trials, LettersAreTokens(), mechanism=Mechanism.SALT, cache=cache))
    return [trial.cached_tokens for trial in expected]


@pytest.mark.parametrize(
    ("policy", "last"),
    [({}, 4), ({"eviction_policy": "fifo"}, 2), ({"eviction_policy": "unheard-of"}, 4)],
    ids=["unsaid", "ours", "unknown"],
)
def test_what_goes_first_is_what_the_server_says_or_else_what_was_used_longest_ago(
    policy: dict[str, str], last: int
) -> None:
    cache = {"block_size": "2", "num_gpu_blocks": "6", **policy}
    assert cached_tokens(["aaaaa", "bbbbb", "aaaaa", "ccccc", "aaaaa"], cache) == [0, 0, 4, 0, last]


def test_a_server_that_keeps_prompts_in_slots_is_predicted_token_by_token() -> None:
    assert cached_tokens(["abcdef", "abcdxyz", "abcdef"], {"num_slots": 4}) == [0, 4, 4]
    assert block_size_of({"num_slots": 4}) == 1

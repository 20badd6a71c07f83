"""What is asked: shared where sharing is meant, exactly, and new where a miss is meant."""

import asyncio
import itertools
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.lab.arms import Mechanism
from anaphora.lab.load.block_texts import BlockTexts
from anaphora.lab.load.jobs import Address, ClosedShare, Job, OpenShare, decode_job, encode_job
from anaphora.lab.load.vocabulary import find_vocabulary
from anaphora.lab.load.workloads import (
    NONCE_TOKENS,
    AnyWorkload,
    Asking,
    BlockPrompt,
    BlockWorkload,
    ChatWorkload,
    VerbatimWorkload,
)
from anaphora.lab.workloads.texts import EDITION_WORDS

WORDS = tuple(f" {word}" for word in EDITION_WORDS)


def asking(mechanism: Mechanism = Mechanism.SALT, *, off: bool = False, seed: str = "run/0") -> Asking:
    return Asking(model="m", seed=seed, mechanism=mechanism, must_miss=off, ignores_eos=True)


def chat(who: Asking, **changes: Any) -> ChatWorkload:
    values: dict[str, Any] = {
        "asking": who,
        "lang": "en",
        "num_prefixes": 1,
        "num_prefix_units": 40,
        "num_unique_words": 12,
        "words": WORDS,
        "output_tokens": 8,
    }
    return ChatWorkload(**{**values, **changes})


def blocks(who: Asking, *prompts: BlockPrompt, block_size: int = 32, ids: bool = False) -> BlockWorkload:
    return BlockWorkload(
        asking=who,
        prompts=prompts,
        block_size=block_size,
        words=WORDS,
        word_ids=list(range(1000, 1000 + len(WORDS))) if ids else None,
    )


def asked(workload: AnyWorkload, number: int) -> Mapping[str, Any]:
    body: Mapping[str, Any] = json.loads(workload.body(number))
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    assert "/" not in body.get("cache_salt", "")  # which vLLM refuses
    return body


def common_words(first: str, second: str) -> int:
    pairs = zip(first.split(), second.split(), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


@pytest.mark.parametrize("mechanism", list(Mechanism))
def test_on_requests_share_their_system_prompt_and_nothing_else(mechanism: Mechanism) -> None:
    first, second = (asked(chat(asking(mechanism)), number) for number in (0, 1))
    assert first["messages"][0] == second["messages"][0]
    assert first["messages"][1] != second["messages"][1]
    assert first.get("cache_salt") == second.get("cache_salt")
    assert ("cache_salt" in first) is (mechanism is Mechanism.SALT)


@pytest.mark.parametrize("mechanism", [Mechanism.SALT, Mechanism.NONCE])
def test_off_requests_share_nothing(mechanism: Mechanism) -> None:
    first, second = (asked(chat(asking(mechanism, off=True)), number) for number in (0, 1))
    if mechanism is Mechanism.SALT:
        assert first["cache_salt"] != second["cache_salt"]
        assert first["messages"] == asked(chat(asking(mechanism)), 0)["messages"]  # the very texts of the on arm
    else:
        assert common_words(first["messages"][0]["content"], second["messages"][0]["content"]) < 6


@pytest.mark.parametrize(("num_prefixes", "same"), [(0, {(0, 0)}), (1, {(0, 1), (0, 2)}), (2, {(0, 2), (1, 3)})])
def test_requests_take_turns_with_so_many_system_prompts(num_prefixes: int, same: set[tuple[int, int]]) -> None:
    workload = chat(asking(), num_prefixes=num_prefixes)
    systems = [asked(workload, number)["messages"][0] for number in range(4)]
    for pair in itertools.combinations(range(4), 2):
        expected = num_prefixes > 0 and pair[0] % num_prefixes == pair[1] % num_prefixes
        assert (systems[pair[0]] == systems[pair[1]]) is expected
    assert all(systems[a] == systems[b] for a, b in same)


def test_another_stage_has_other_texts() -> None:
    one, other = (asked(chat(asking(seed=seed)), 0)["messages"] for seed in ("run/0", "run/1"))
    assert common_words(one[0]["content"], other[0]["content"]) < 6


@settings(max_examples=50)
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=6, unique=True), st.sampled_from([4, 16, 100, 512]))
def test_equal_ids_have_equal_texts_and_different_ones_part_within_the_digits_of_their_id(
    ids: list[int], block_size: int
) -> None:
    texts = BlockTexts("seed", len(WORDS), block_size)
    made = {block_id: texts.block(block_id) for block_id in ids}
    assert all(len(places) == block_size for places in made.values())
    assert made == {block_id: BlockTexts("seed", len(WORDS), block_size).block(block_id) for block_id in ids}
    for one, other in itertools.combinations(ids, 2):
        assert made[one][:4] != made[other][:4]  # 66 words: four digits tell millions apart


@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("off", [False, True])
@pytest.mark.parametrize("mechanism", list(Mechanism))
def test_prompts_of_a_trace_share_exactly_their_common_blocks(mechanism: Mechanism, off: bool, ids: bool) -> None:
    workload = blocks(
        asking(mechanism, off=off), BlockPrompt([0, 1, 2], 80, 4), BlockPrompt([0, 1, 3, 4], 128, 4), ids=ids
    )
    prompts = [asked(workload, number)["prompt"] for number in (0, 1)]
    tokens = [prompt if ids else prompt.split() for prompt in prompts]
    nonce = NONCE_TOKENS if mechanism is Mechanism.NONCE else 0
    assert [len(prompt) for prompt in tokens] == [80 + nonce, 128 + nonce]
    pairs = zip(*(map(str, prompt) for prompt in tokens), strict=False)
    shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    if off and mechanism is Mechanism.NONCE:
        assert shared < nonce
    else:
        assert shared == 64 + nonce


@pytest.mark.parametrize("prompt", [{"messages": [{"role": "user", "content": "hi"}]}, {"prompt": "hi"}])
def test_a_traces_own_prompts_are_sent_as_they_are_unless_words_must_stand_in_front(prompt: dict[str, Any]) -> None:
    def workload(mechanism: Mechanism, *, off: bool) -> VerbatimWorkload:
        return VerbatimWorkload(
            asking=asking(mechanism, off=off), is_chat="messages" in prompt, prompts=[prompt], output_tokens=[3]
        )

    plain = asked(workload(Mechanism.SALT, off=True), 0)
    assert prompt.items() <= plain.items()
    on, again, off = (
        asked(workload(Mechanism.NONCE, off=is_off), number)[next(iter(prompt))]
        for is_off, number in ((False, 0), (False, 1), (True, 0))
    )
    assert on == again
    assert on != off
    assert "hi" in json.dumps(off)


def test_every_workload_and_share_comes_out_of_its_line_as_it_went_in() -> None:
    workloads: list[AnyWorkload] = [
        chat(asking(Mechanism.NONCE, off=True)),
        blocks(asking(), BlockPrompt([0, 1], 40, 4), ids=True),
        VerbatimWorkload(asking=asking(), is_chat=True, prompts=[{"messages": []}], output_tokens=[1]),
    ]
    shares: list[ClosedShare | OpenShare] = [ClosedShare([0, 2], 4, 1.5), OpenShare([(0.5, 0), (1.0, 1)], 64)]
    for workload, share in itertools.product(workloads, shares):
        job = Job(3, 1, Address("http://127.0.0.1:1/v1", {"Authorization": "Bearer secret"}, 9.0), workload, share)
        back = decode_job(encode_job(job))
        assert [back.workload.body(n) for n in (0, 0)] == [workload.body(n) for n in (0, 0)]
        assert (back.address, back.share, back.stage, back.process) == (job.address, share, 3, 1)
        assert "secret" not in repr(back)


@pytest.mark.parametrize(("splits", "exact"), [(0, True), (5, True), (60, False)])
def test_the_vocabulary_has_only_words_of_one_token(splits: int, exact: bool) -> None:
    split = set(EDITION_WORDS[:splits])

    async def count(text: str) -> int | None:
        return sum(2 if word in split else 1 for word in text.split())

    found = asyncio.run(find_vocabulary(count))
    assert found.exact is exact
    if exact:
        assert {word.strip() for word in found.words} == set(EDITION_WORDS) - split


def test_without_a_tokenizer_the_vocabulary_is_a_guess() -> None:
    async def unknown(text: str) -> int | None:
        return None

    found = asyncio.run(find_vocabulary(unknown))
    assert (found.exact, found.words) == (False, WORDS)

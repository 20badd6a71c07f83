"""llama.cpp's slots by hand: which slot a prompt takes, what it finds there, and what comes back from the store."""

from collections.abc import Sequence

import pytest

from anaphora.lab.slots import SlotCache

A, B, C = (list(range(start, start + 100)) for start in (0, 1000, 2000))


def served(num_slots: int, *prompts: Sequence[int], num_outputs: int = 1) -> list[int]:
    slots = SlotCache(num_slots)
    return [slots.serve(prompt, num_outputs) for prompt in prompts]


def test_a_repeated_prompt_computes_its_last_token_alone() -> None:
    assert served(4, A, A) == [0, 99]


def test_a_longer_prompt_finds_all_of_the_shorter_one_and_nothing_of_its_answer() -> None:
    assert served(4, A, [*A, 7, 8], num_outputs=5) == [0, 100]


def test_the_second_continuation_replaces_the_first() -> None:
    first, second = [*A, *B], [*A, *C]
    assert served(1, first, second, [*A, *B, 5]) == [0, 100, 100]


def test_prompts_fill_the_slots_and_the_one_that_rested_longest_is_taken() -> None:
    slots = SlotCache(2)
    for prompt in (A, B, C):
        slots.serve(prompt, 1)
    assert slots._held == [B, C]
    assert slots._stored == [A]


def test_a_prompt_that_lost_its_slot_comes_back_from_the_store() -> None:
    assert served(1, A, B, A) == [0, 0, 99]


@pytest.mark.parametrize(("num_shared", "reused"), [(10, 0), (11, 11)])
def test_a_slot_is_chosen_only_for_more_than_a_tenth_of_the_prompt(num_shared: int, reused: int) -> None:
    """The other slot is empty, and has rested longer."""
    prompt = [*A[:num_shared], *range(5000, 5100 - num_shared)]
    assert served(2, A, prompt) == [0, reused]


def test_what_the_slot_that_rested_longest_shares_by_chance_is_reused() -> None:
    """Less than a tenth: the slot was not chosen for it, and has it all the same."""
    prompt = [*A[:6], *range(5000, 5094)]
    assert served(1, A, prompt) == [0, 6]


def test_a_prompt_that_the_slot_would_lose_most_of_is_stored_first() -> None:
    short = [*A[:20], *range(5000, 5025)]
    assert served(1, A, short, A) == [0, 20, 99]


def test_a_stored_prompt_that_is_within_a_longer_one_is_stored_once() -> None:
    slots = SlotCache(1)
    for prompt in (A, B, [*A, 7], B):
        slots.serve(prompt, 1)
    assert slots._stored == [[*A, 7]]

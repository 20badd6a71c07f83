"""Prefixes of a trace of hashes, numbered: by its own ids where they say it, and else anew."""

from array import array

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anaphora.sim.prefix_paths import count_prefixes, paths_of
from anaphora.sim.prompt_blocks import PromptBlocks
from anaphora.types import Namespace

Ids = list[int]


def prompts_of(rows: list[Ids]) -> list[PromptBlocks]:
    return [PromptBlocks(Namespace(""), array("I", ids).tobytes(), 16 * len(ids), 16, True, None, None) for ids in rows]


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4), min_size=1, max_size=8))
@example([[0], [2, 1]])
@example([[0, 1], [0, 3, 2]])
@example([[0, 1], [2, 1]])
@example([[0, 1], [1]])
@example([[2**32 - 1]])
def test_equal_numbers_are_equal_prefixes(rows: list[Ids]) -> None:
    paths = paths_of(prompts_of(rows))
    numbers: dict[tuple[int, ...], int] = {}
    for ids, path in zip(rows, paths, strict=True):
        assert len(path) == len(ids)
        for end, number in enumerate(path, 1):
            assert numbers.setdefault(tuple(ids[:end]), number) == number
    assert sorted(numbers.values()) == list(range(len(numbers)))
    assert count_prefixes(paths) == len(numbers)


@pytest.mark.parametrize(
    ("rows", "is_own"),
    [
        ([[0, 1, 2], [0, 1, 3, 4], [0, 1, 3], [5]], True),
        ([[1], [0]], False),
        ([[0, 1], [0, 3, 2]], False),
        ([[0, 1], [1]], False),
    ],
)
def test_ids_that_number_the_prefixes_as_they_come_are_taken_as_they_are(rows: list[Ids], is_own: bool) -> None:
    assert ([path.tolist() for path in paths_of(prompts_of(rows))] == rows) == is_own

"""Block ids: those that number prefixes as they come stay as they are, and nobody can tell that none was looked up."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anaphora.traces.block_ids import BlockIds
from anaphora.traces.findings import Findings

BLOCK = 4
Rows = list[tuple[list[int], int]]
"""Ids, and how many tokens the prompt ends with that fill no block."""


def read(rows: Rows, *, own: bool) -> tuple[list[list[int] | None], list[str], bool]:
    """The renumbered prompts, what was found, and whether the ids were theirs until the end."""
    findings = Findings()
    ids = BlockIds(BLOCK, findings)
    if not own:
        ids._own = None
    prompts = []
    for line, (row, num_tail) in enumerate(rows, 1):
        prompt = ids.prompt(row, BLOCK * (len(row) - bool(num_tail)) + num_tail, line)
        prompts.append(prompt.block_ids.tolist() if prompt else None)
    return prompts, [str(found) for found in findings.all()], ids._own is not None


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 6), min_size=1, max_size=4), st.integers(0, 3)), min_size=1, max_size=10)
)
@example([([0, 1], 2), ([0, 1], 3), ([0, 1, 2], 0)])
@example([([0, 1], 0), ([0, 1], 3), ([0, 2], 0)])
@example([([0, 1], 0), ([0, 2**32], 0), ([2**70], 1)])
@example([([0, 1, 2], 0), ([0, 2], 0)])
@example([([0, 0], 0)])
def test_looked_up_or_not_the_numbers_and_findings_are_the_same(rows: Rows) -> None:
    assert read(rows, own=True)[:2] == read(rows, own=False)[:2]


@pytest.mark.parametrize(
    ("rows", "stays"),
    [
        ([([0, 1, 2], 3), ([0, 1, 3], 3), ([0, 1, 3], 3), ([0, 4, 5, 6], 0), ([7], 0)], True),
        ([([0, 1], 0), ([3], 0)], False),
        ([([0, 1], 0), ([1], 0)], False),
        ([([0, 1], 2), ([0, 1, 2], 0)], False),
        ([([0, 1], 2), ([0, 1], 3)], False),
    ],
)
def test_ids_stay_as_they_are_while_they_number_prefixes(rows: Rows, stays: bool) -> None:
    assert read(rows, own=True)[2] == stays


def test_a_tail_without_an_id_ends_it() -> None:
    ids = BlockIds(BLOCK, Findings())
    first, second = ids.prompt([0], 6, 1), ids.prompt([0, 1], 8, 2)
    assert first
    assert second
    assert (first.block_ids.tolist(), second.block_ids.tolist()) == ([0, 1], [0, 2])

import torch
from hypothesis import given
from hypothesis import strategies as st

from anaphora.engine.input_batch import Chunk, forward_batch, split_into_passes
from anaphora.models.batch import SequenceSpan
from anaphora.types import RequestId


def chunk(
    name: str, start: int, num: int, wanted: range, *, samples: bool = False, table: tuple[int, ...] = ()
) -> Chunk:
    return Chunk(RequestId(name), tuple(range(100 + start, 100 + start + num)), start, table, wanted, samples)


def test_two_requests_become_one_flat_batch() -> None:
    """Block size 4: five tokens from position 6 on in blocks 9 and 2, and one token at position 4 of block 7."""
    batch = forward_batch(
        [
            chunk("a", 6, 5, range(9, 11), samples=True, table=(5, 9, 2)),
            chunk("b", 4, 1, range(4, 5), samples=True, table=(1, 7)),
        ],
        block_size=4,
    )
    assert batch.token_ids.tolist() == [106, 107, 108, 109, 110, 104]
    assert batch.positions.tolist() == [6, 7, 8, 9, 10, 4]
    assert batch.slot_mapping.tolist() == [38, 39, 8, 9, 10, 28]
    assert batch.spans == (SequenceSpan(0, 5, 11, (5, 9, 2)), SequenceSpan(5, 1, 5, (1, 7)))
    assert batch.logits_rows.tolist() == [3, 4, 5]
    assert {t.dtype for t in (batch.token_ids, batch.positions, batch.slot_mapping, batch.logits_rows)} == {torch.int64}


def test_a_chunk_in_the_middle_of_a_prompt_wants_no_logits() -> None:
    batch = forward_batch([chunk("a", 0, 3, range(3, 3), table=(0,))], block_size=4)
    assert batch.logits_rows.tolist() == []


def test_few_logits_are_one_pass() -> None:
    chunks = [chunk("a", 0, 8, range(7, 8), samples=True), chunk("b", 3, 1, range(3, 4), samples=True)]
    assert list(split_into_passes(chunks, 2)) == [chunks]


def test_many_logits_are_cut_into_passes_of_bounded_size() -> None:
    passes = list(split_into_passes([chunk("a", 2, 1, range(2, 3), samples=True), chunk("b", 0, 9, range(2, 8))], 4))
    assert [[(c.request_id, c.start, c.stop, c.logits_positions, c.samples) for c in p] for p in passes] == [
        [("a", 2, 3, range(2, 3), True), ("b", 0, 5, range(2, 5), False)],
        [("b", 5, 9, range(5, 8), False)],
    ]


@st.composite
def chunks(draw: st.DrawFn) -> list[Chunk]:
    made = []
    for index in range(draw(st.integers(1, 4))):
        start, num = draw(st.integers(0, 9)), draw(st.integers(1, 12))
        samples = draw(st.booleans())
        first = draw(st.integers(start, start + num - samples))
        stop = start + num if samples else draw(st.integers(first, start + num))
        made.append(chunk(str(index), start, num, range(first, stop), samples=samples))
    return made


@given(chunks(), st.integers(1, 7))
def test_passes_hold_every_token_and_every_row_once_and_in_order(whole: list[Chunk], limit: int) -> None:
    passes = list(split_into_passes(whole, limit))
    assert all(len(p) > 0 and all(c.token_ids for c in p) for p in passes)
    assert all(sum(len(c.logits_positions) for c in p) <= limit for p in passes)
    flat = [c for p in passes for c in p]
    for source in (whole, flat):
        assert all(not c.samples or c.logits_positions[-1:] == range(c.stop - 1, c.stop) for c in source)
    assert _tokens(flat) == _tokens(whole)
    assert _rows(flat) == _rows(whole)
    assert [c.request_id for c in flat if c.samples] == [c.request_id for c in whole if c.samples]


def _tokens(chunks: list[Chunk]) -> list[tuple[str, int, int]]:
    return [(c.request_id, c.start + i, token_id) for c in chunks for i, token_id in enumerate(c.token_ids)]


def _rows(chunks: list[Chunk]) -> list[tuple[str, int]]:
    return [(c.request_id, position) for c in chunks for position in c.logits_positions]

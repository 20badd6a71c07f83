"""Packing: every list in its place, padding that reads as nothing, and padded passes equal to exact ones."""

import random
from array import array
from pathlib import Path

import numpy as np
import pytest
import torch

from anaphora.engine.gpu.buckets import bucket_of, buckets_up_to
from anaphora.engine.gpu.flat_batch import FlatBatch, flatten, int32, logits_rows_alone, one_token_each
from anaphora.engine.gpu.launcher import compute
from anaphora.engine.gpu.memory import largest_step
from anaphora.engine.gpu.step_inputs import DeviceInputs, HostInputs, Room
from anaphora.engine.input_batch import Chunk, forward_batch
from anaphora.engine.memory_plan import MAX_GRAPH_TOKENS
from anaphora.models.device.attention import PLAIN_TILES
from anaphora.types import RequestId
from tests.engine.gpu.emulated import CPU, emulated_launcher, emulated_model
from tests.engine.harness import config_for

A = Chunk(RequestId("a"), (7, 8, 9), 4, (3, 1), range(6, 7), samples=True)
B = Chunk(RequestId("b"), (5,), 9, (0, 2, 4), range(9, 10), samples=True)
SAMPLED = torch.zeros(8, dtype=torch.int32)


def test_flat_arrays_are_those_of_the_cpu() -> None:
    flat = flatten([A, B], 4)
    expected = forward_batch([A, B], 4)
    for name in ("token_ids", "positions", "logits_rows"):
        assert getattr(flat, name).tolist() == getattr(expected, name).tolist(), name
    assert flat.slots.tolist() == expected.slot_mapping.tolist() == [4, 5, 6, 17]
    assert [(s.query_start, s.query_len, s.kv_len) for s in flat.spans] == [(0, 3, 7), (3, 1, 10)]


def test_rows_of_logits_alone() -> None:
    both = flatten([A, Chunk(RequestId("c"), (1, 2), 0, (5,), range(0), samples=False), B], 4)
    alone = logits_rows_alone(both)
    assert (alone.token_ids.tolist(), alone.positions.tolist(), alone.slots.tolist()) == ([9, 5], [6, 9], [-1, -1])
    assert alone.logits_rows.tolist() == [0, 1]
    assert [(s.query_start, s.query_len, s.kv_len, [*s.block_table]) for s in alone.spans] == [
        (0, 1, 7, [3, 1]),
        (1, 1, 10, [0, 2, 4]),
    ]


@pytest.mark.parametrize("seed", range(4))
def test_flat_arrays_of_many_chunks(seed: int) -> None:
    """Of all lengths, in lists, tuples and packed arrays, with one row of logits, several or none."""
    rng = random.Random(seed)
    chunks = []
    for number in range(rng.randrange(1, 9)):
        start, length = rng.randrange(40), rng.choice([1, 1, 2, 5, 16, 33])
        token_ids = [rng.randrange(2**31) for _ in range(length)]
        table = rng.sample(range(2**20), -(-(start + length) // 4) + rng.randrange(3))
        packed = rng.random() < 0.5
        chunks.append(
            Chunk(
                RequestId(f"{number}"),
                array("I", token_ids) if packed else token_ids,
                start,
                array("I", table) if packed else tuple(table),
                range(start + rng.randrange(length + 1), start + length),
                samples=True,
            )
        )
    flat, expected = flatten(chunks, 4), forward_batch(chunks, 4)
    for name in ("token_ids", "positions", "logits_rows"):
        assert getattr(flat, name).tolist() == getattr(expected, name).tolist(), name
        assert getattr(flat, name).dtype == np.int32
    assert flat.slots.tolist() == expected.slot_mapping.tolist()
    assert flat.slots.dtype == np.int32
    for span, other, chunk in zip(flat.spans, expected.spans, chunks, strict=True):
        assert span[:3] == other[:3]
        assert np.array_equal(span.block_table, int32(chunk.block_table))


def test_one_token_each_is_what_chunks_of_one_token_are() -> None:
    tables = [array("I", [3, 1]), (0, 2, 4), array("I", [9])]
    positions, token_ids = [6, 11, 0], [-3, 7, -1]
    chunks = [
        Chunk(RequestId(f"{row}"), (token_id,), position, table, range(position, position + 1), samples=True)
        for row, (token_id, position, table) in enumerate(zip(token_ids, positions, tables, strict=True))
    ]
    expected, flat = flatten(chunks, 4), one_token_each(token_ids, positions, [1, 4, 9], tables, 4)
    for name in ("token_ids", "positions", "slots", "logits_rows"):
        assert np.array_equal(getattr(flat, name), getattr(expected, name)), name
        assert getattr(flat, name).dtype == np.int32
    for span, other in zip(flat.spans, expected.spans, strict=True):
        assert span[:3] == other[:3]
        assert np.array_equal(span.block_table, other.block_table)


def test_a_packed_table_is_read_where_it_is() -> None:
    table = array("I", [3, 1])
    view = int32(table)
    table[0] = 9
    assert view.tolist() == [9, 1]


def test_every_list_in_its_place_and_padding_after_it(tiny_folders: dict[str, Path]) -> None:
    flat = flatten([A, B], 4)
    plan = emulated_model(tiny_folders["llama3"], 4).attention.plan_spans(flat.spans)
    room = Room(num_tokens=6, num_rows=5, num_listed=9, num_work=100, num_parts=7)
    host, inputs = HostInputs(room, pinned=False), DeviceInputs(room, CPU)
    host.tensor.fill_(99)
    inputs.send(host, host.fill(flat, plan))
    batch = inputs.batch(6, 5, PLAIN_TILES, None, SAMPLED)
    assert batch.token_ids.tolist() == [7, 8, 9, 5, 0, 0]
    assert batch.positions.tolist() == [4, 5, 6, 9, 0, 0]
    assert batch.slots.tolist() == [4, 5, 6, 17, -1, -1]
    assert batch.logits_rows.tolist() == [2, 3, 0, 0, 0]
    assert batch.tasks.part_start.tolist() == [*plan.part_start, *[plan.num_parts] * 2]
    assert batch.tasks.num_tasks.tolist() == [plan.num_tasks]
    assert batch.tasks.work[: len(plan.work)].tolist() == plan.work.tolist()
    assert inputs.batch(1, 1, PLAIN_TILES, None, SAMPLED).tasks.work.data_ptr() % 16 == 0


@pytest.mark.parametrize("short", ["num_tokens", "num_rows", "num_listed", "num_work"])
def test_what_does_not_fit_is_known_beforehand(short: str, tiny_folders: dict[str, Path]) -> None:
    flat = flatten([A, B], 4)
    plan = emulated_model(tiny_folders["llama3"], 4).attention.plan_spans(flat.spans)
    need = Room.of(flat, plan)
    assert need.holds(flat, plan)
    sizes = {name: getattr(need, name) for name in Room.__slots__}
    assert not Room(**sizes | {short: sizes[short] - 1}).holds(flat, plan)


def test_a_padded_pass_gives_the_same_logits(tiny_folders: dict[str, Path]) -> None:
    config = config_for(tiny_folders["qwen3"], block_size=4, num_gpu_blocks_override=8)
    model = emulated_model(tiny_folders["qwen3"], 4)
    chunks = [
        Chunk(RequestId("a"), (7, 8, 9, 3, 2), 0, (3, 1), range(4, 5), samples=True),
        Chunk(RequestId("b"), (5, 6), 0, (2,), range(1, 2), samples=True),
    ]
    padded = emulated_launcher(model, config, 16)
    exact = emulated_launcher(model, config, 0)
    with torch.inference_mode():
        first, second = padded.launch(flatten(chunks, 4)), exact.launch(flatten(chunks, 4))
        assert first.token_ids() == second.token_ids()
        torch.testing.assert_close(first.logits[:2], second.logits, rtol=1e-5, atol=1e-5)
        further = flatten([Chunk(RequestId("b"), (4,), 2, (2,), range(2, 3), samples=True)], 4)
        torch.testing.assert_close(
            padded.launch(further).logits[:1], exact.launch(further).logits, rtol=1e-5, atol=1e-5
        )


def test_buckets() -> None:
    assert buckets_up_to(64)[-1] == 64
    assert buckets_up_to(50)[-1] == 64
    assert buckets_up_to(10_000)[-1] == MAX_GRAPH_TOKENS
    assert [bucket_of(n) for n in (1, 3, 256, 1025)] == [1, 4, 256, None]
    assert bucket_of(5, (1, 4)) is None


def test_the_largest_step_stores_nothing(tiny_folders: dict[str, Path]) -> None:
    model = emulated_model(tiny_folders["llama3"], 16)
    kv = model.new_kv_cache(1, 16)
    kv.layer(0).zero_()
    batch = largest_step(40, 3, 16)
    assert isinstance(batch, FlatBatch)
    with torch.inference_mode():
        logits = compute(model, kv, batch, model.attention.plan_spans(batch.spans), SAMPLED)
    assert logits.shape == (3, model.config.vocab_size)
    assert np.count_nonzero(kv.layer(0).numpy()) == 0

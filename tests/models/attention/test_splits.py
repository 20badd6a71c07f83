"""How keys are cut for a GPU of many programs, and how steps are cut into waves."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.engine.gpu.buckets import TOKEN_BUCKETS, bucket_of
from anaphora.models.attention.splits import count_splits
from anaphora.models.attention.tiles import (
    AMPERE,
    HOPPER,
    StepShape,
    TileConfig,
    step_shapes,
    tile_config,
    tile_configs,
)
from anaphora.models.attention.waves import split_into_waves
from anaphora.models.batch import SequenceSpan

DECODE = HOPPER["decode"]


def splits(
    lengths: list[int], num_programs: int = 132, num_kv_heads: int = 4, config: TileConfig = DECODE, num_rows: int = 7
) -> list[int]:
    rows = np.full(len(lengths), num_rows)
    found = count_splits(np.array(lengths, dtype=np.int64), rows, config, num_kv_heads, num_programs)
    return [int(number) for number in found]


def test_one_long_request_is_spread_over_all_programs() -> None:
    assert splits([32768]) == [32]  # of 4 heads on 132 programs, and with 33 the longest would be no shorter


def test_requests_enough_to_fill_the_gpu_are_not_cut() -> None:
    assert splits([4096] * 33) == [1] * 33


def test_a_short_request_beside_a_long_one_is_left_whole() -> None:
    assert splits([32768, 100])[1] == 1


def test_what_is_shared_fills_one_round_whatever_is_left_for_another() -> None:
    tails = [32 + 2 * index for index in range(64)]
    found = splits([4096] * 7 + tails, num_programs=264, config=HOPPER["extend"], num_rows=64)
    assert found[:7] == [9] * 7  # 7 tiles of 4 heads: 252 of 264 programs
    assert sum(found[7:]) * 4 <= 264 + 12


def test_a_fixed_split_is_kept_whatever_the_step_holds() -> None:
    assert splits([5, 5000], config=replace(DECODE, fixed_split=256)) == [1, 20]


def test_nothing_is_cut_into_nothing() -> None:
    assert splits([]) == []


@given(st.lists(st.integers(1, 40000), min_size=1, max_size=30), st.integers(1, 300), st.sampled_from([1, 2, 8]))
def test_splits_are_no_smaller_than_tiles_and_equal_for_equal_lengths(
    lengths: list[int], programs: int, heads: int
) -> None:
    for config in (DECODE, HOPPER["extend"]):
        found = splits([*lengths, lengths[0]], programs, heads, config)
        assert found[0] == found[-1]
        for length, number in zip(lengths, found, strict=False):
            assert 1 <= number <= -(-length // config.columns)


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        (StepShape(64, 7, 14, 30000), "decode"),
        (StepShape(64, 7, 448, 4096), "extend"),
        (StepShape(1, 112, 112, 4096), "hit"),
        (StepShape(1, 175, 175, 4096), "hit"),
        (StepShape(1, 231, 231, 4096), "prefill"),
        (StepShape(1, 112, 112, 32768), "prefill"),
        (StepShape(2, 140, 700, 4096), "prefill"),
        (StepShape(33, 7, 112, 32768), "extend"),
    ],
)
def test_sizes_follow_the_fullest_tile(shape: StepShape, name: str) -> None:
    assert tile_config(HOPPER, shape, batch_invariant=False, is_float32=False) == HOPPER[name]


@given(
    lengths=st.lists(st.integers(1, 256), min_size=1, max_size=40),
    group=st.integers(1, 16),
    most_keys=st.sampled_from([300, 8192, 8193, 32000]),
    num_sharing=st.integers(0, 40),
    name=st.sampled_from(["hopper", "ampere"]),
)
def test_the_shapes_of_a_bucket_need_every_size_that_any_of_its_steps_does(
    lengths: list[int], group: int, most_keys: int, num_sharing: int, name: str
) -> None:
    configs = {"hopper": HOPPER, "ampere": AMPERE}[name]
    bucket = bucket_of(sum(lengths))
    if bucket is None:
        return
    fewest = 1 + max([other for other in TOKEN_BUCKETS if other < bucket], default=0)
    rows = [group * length for length in lengths]
    shared = sum(rows[:num_sharing]) if num_sharing > 1 else 0
    step = StepShape(len(lengths), min(rows), max(*rows, shared), most_keys)
    chosen, *captured = (
        tile_config(configs, shape, batch_invariant=False, is_float32=False)
        for shape in (step, *step_shapes(fewest, bucket, group))
    )
    assert chosen in captured


def test_batch_invariant_steps_have_the_same_sizes_whatever_they_hold() -> None:
    one, other = (
        tile_config(HOPPER, StepShape(1, rows, rows, 9000), batch_invariant=True, is_float32=False) for rows in (7, 700)
    )
    assert one == other
    assert one.fixed_split > 0


def test_float32_takes_smaller_tiles() -> None:
    assert tile_config(HOPPER, StepShape(1, 700, 700, 9000), batch_invariant=False, is_float32=True).columns == 32


def test_older_architectures_have_sizes_of_their_own() -> None:
    assert tile_configs((8, 6)) is AMPERE
    assert tile_configs((9, 0)) is HOPPER


def test_waves_hold_at_most_so_many_parts_and_every_query_once() -> None:
    spans = [SequenceSpan(0, 5, 40, [1, 2, 3]), SequenceSpan(5, 1, 100, [4]), SequenceSpan(6, 2, 10, [5])]
    waves = split_into_waves(spans, split=16, max_parts=9)
    assert waves == [
        [SequenceSpan(0, 3, 38, [1, 2, 3])],
        [SequenceSpan(3, 2, 40, [1, 2, 3])],
        [SequenceSpan(5, 1, 100, [4]), SequenceSpan(6, 2, 10, [5])],
    ]


def test_a_query_with_more_parts_than_a_wave_has_is_a_wave_of_its_own() -> None:
    waves = split_into_waves([SequenceSpan(0, 2, 100, [1])], split=10, max_parts=3)
    assert [[(span.query_start, span.query_len, span.kv_len) for span in wave] for wave in waves] == [
        [(0, 1, 99)],
        [(1, 1, 100)],
    ]

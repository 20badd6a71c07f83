from anaphora.models.attention.runs import slot_runs


def test_neighbouring_blocks_are_one_run() -> None:
    assert slot_runs([4, 5, 6], block_size=16, kv_len=48) == [(64, 112)]


def test_the_last_block_counts_as_far_as_it_is_filled() -> None:
    assert slot_runs([4, 5, 9], block_size=16, kv_len=40) == [(64, 96), (144, 152)]
    assert slot_runs([4, 5], block_size=16, kv_len=17) == [(64, 81)]


def test_descending_and_repeated_blocks_are_runs_of_their_own() -> None:
    assert slot_runs([5, 4, 4], block_size=2, kv_len=6) == [(10, 12), (8, 10), (8, 10)]


def test_blocks_beyond_the_length_do_not_matter() -> None:
    assert slot_runs([7, 8, 9], block_size=4, kv_len=4) == [(28, 32)]
    assert slot_runs([7], block_size=4, kv_len=0) == []

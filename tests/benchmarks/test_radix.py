"""The comparison of token and block granularity, on prompts small enough to count by hand."""

from array import array

from benchmarks.cache.radix import interleave, num_distinct_tokens, replay

FIRST = array("I", range(40))
PARTS_AFTER_20 = array("I", [*range(20), *range(100, 130)])


def test_a_tree_of_tokens_shares_to_the_token_and_blocks_to_the_block() -> None:
    prompts = [FIRST, PARTS_AFTER_20, FIRST]
    by_token, by_block = (replay(prompts, block_size, 1000) for block_size in (1, 16))
    assert by_token["cached_tokens"] == 20 + 39  # all but the last token of a whole prompt
    assert by_block["cached_tokens"] == 16 + 32
    assert by_token["held_tokens"] == num_distinct_tokens(prompts) == 70
    assert by_block["held_tokens"] == 2 * 16 + 2 * 16  # full blocks alone, the first of them shared
    assert by_token["longest_lookup_ms"]["cached_tokens"] == 49


def test_without_room_something_is_evicted() -> None:
    crowded = replay([FIRST, array("I", range(200, 240)), FIRST], 16, 60)
    assert crowded["evicted_blocks"] > 0
    assert crowded["cached_tokens"] < 32


def test_sessions_take_turns() -> None:
    first, second = ([[{"role": name, "content": str(turn)}] for turn in range(2)] for name in ("a", "b"))
    order = [(message[0]["role"], message[0]["content"]) for message in interleave([first, second])]
    assert order == [("a", "0"), ("b", "0"), ("a", "1"), ("b", "1")]

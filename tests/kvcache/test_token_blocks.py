from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.errors import RequestError
from anaphora.kvcache.token_blocks import TOKEN_BYTES, TokenBlocks, num_common_units, pack, unpack


def test_a_token_takes_four_bytes() -> None:
    assert TOKEN_BYTES == len(pack([1]).tobytes()) == 4


@given(st.lists(st.integers(0, 2**32 - 1), max_size=20), st.integers(1, 5), st.integers(0, 20))
def test_packed_at_once_or_token_by_token_is_the_same(tokens: list[int], block_size: int, cut: int) -> None:
    at_once = TokenBlocks(tokens, block_size)
    grown = TokenBlocks(tokens[:cut], block_size)
    for token in tokens[cut:]:
        grown.append(token)
    assert at_once.full == grown.full
    assert at_once.num_tokens == grown.num_tokens == len(tokens)
    assert unpack(at_once.to_bytes()) == unpack(grown.to_bytes()) == tuple(tokens)
    assert [unpack(block) for block in at_once.full] == [
        tuple(tokens[i : i + block_size]) for i in range(0, len(tokens) - block_size + 1, block_size)
    ]


@given(st.integers(2, 6), st.data())
def test_a_token_completes_a_block_only_where_it_fills_it(block_size: int, data: st.DataObject) -> None:
    num_known = data.draw(st.integers(0, 12))
    blocks = TokenBlocks(range(num_known), block_size)
    for num_tokens in range(num_known + 1, num_known + 2 * block_size + 1):
        num_full = blocks.num_full
        blocks.append(7)
        assert blocks.num_full - num_full == (num_tokens % block_size == 0)
        assert blocks.num_tokens == num_tokens


@pytest.mark.parametrize(("num_more", "num_full"), [(0, 1), (2, 1), (3, 2), (7, 3), (12, 4)])
def test_added_in_one_piece_or_token_by_token_is_the_same(num_more: int, num_full: int) -> None:
    more = [*range(10, 10 + num_more)]
    pieces, grown = TokenBlocks([1, 2, 3, 4, 5], 4), TokenBlocks([1, 2, 3, 4, 5], 4)
    pieces.extend(more)
    for token in more:
        grown.append(token)
    assert pieces.full == grown.full
    assert (pieces.num_full, pieces.num_tokens) == (num_full, 5 + num_more)
    assert pieces.to_bytes() == grown.to_bytes()


@pytest.mark.parametrize("width", [4, 64])
@pytest.mark.parametrize("num_common", [0, 1, 63, 64, 3_333, 8_191, 8_192, 10_000])
def test_where_long_sequences_part_is_found(num_common: int, width: int) -> None:
    a = pack(range(10_000)).tobytes()
    b = a[: num_common * TOKEN_BYTES] + pack([2**32 - 1] * (10_000 - num_common)).tobytes()
    assert num_common_units(a, b, width) == num_common * TOKEN_BYTES // width
    assert num_common_units(bytearray(b), memoryview(a), width) == num_common * TOKEN_BYTES // width


def test_an_array_packs_like_a_list() -> None:
    assert TokenBlocks(array("I", [1, 2, 3]), 2).full == TokenBlocks([1, 2, 3], 2).full


def test_packed_bytes_pack_like_a_list() -> None:
    packed = pack([1, 2, 3, 4, 5]).tobytes()
    blocks = TokenBlocks(packed, 2)
    assert blocks.full == TokenBlocks([1, 2, 3, 4, 5], 2).full
    assert (blocks.num_full, blocks.num_tokens, blocks.to_bytes()) == (2, 5, packed)
    assert blocks.block(1) == packed[8:16]
    assert bytes(blocks.run(0, 2)) == packed[:16]


def test_bytes_that_are_no_whole_tokens_are_refused() -> None:
    with pytest.raises(RequestError, match="token ids must be integers"):
        TokenBlocks(b"12345", 2)


@pytest.mark.parametrize("tokens", [[-1], [2**32], [1.5], ["1"], [None]])
def test_what_is_no_token_id_is_refused(tokens: list[int]) -> None:
    with pytest.raises(RequestError, match="token ids must be integers from 0 to 4294967295") as caught:
        pack(tokens)
    assert caught.value.param == "prompt"

"""Cache sizes as people write them."""

import pytest

from anaphora.errors import ConfigError
from anaphora.sim.capacity import parse_capacities


def blocks(
    text: str, block_size: int = 16, trace_block_size: int = 16, served_tokens: int | None = None
) -> list[int | None]:
    sizes = parse_capacities(text, lambda model: {"small": 2**10, "large": 2**17}[model])
    return [size.num_blocks(block_size, trace_block_size, 1000, served_tokens) for size in sizes]


def test_plain_numbers_are_blocks_of_the_trace() -> None:
    assert blocks("12, 10k,1M|1.5k") == [12, 10_000, 1_000_000, 1500]
    assert blocks("10k", block_size=1024, trace_block_size=512) == [5000]


def test_shares_bytes_and_no_bounds() -> None:
    assert blocks("5%,0.5%,INF") == [50, 5, None]
    assert blocks("8GiB@large,1MB@small") == [2**33 // 2**17 // 16, 10**6 // 1024 // 16]


def test_multiples_of_what_the_server_had() -> None:
    assert blocks("1x,2.5X", served_tokens=1600) == [100, 250]
    assert blocks("1x", block_size=32, served_tokens=1600) == [50]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("8GiB", "say for which model, as in 8GiB@MODEL"),
        ("ten", "'ten' is not understood"),
        ("10q", "is not understood"),
        ("10k@small", "is not understood"),
        ("0", "capacity 0 is less than one block of 16 tokens"),
        ("0.01%", "less than one block"),
        ("2x", "capacity 2x: only a request log tells how much memory its server had"),
        ("2x@small", "is not understood"),
    ],
)
def test_what_is_no_size(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        blocks(text)

"""What counts prove of a block size: never a wrong one, and the right one where places enough are tried."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.lab.probe.block_size import Parting, block_size_of, places
from anaphora.lab.probe.held_back import Repeated, rules_that_fit


def partings(shared: list[int], block_size: int, *, head: int, minimum: int, held_back: int) -> list[Parting]:
    """What a server with such blocks tells, if the template's opening has ``head`` tokens."""
    cached = [max(0, (head + words) // block_size - held_back) * block_size for words in shared]
    return [Parting(words, tokens if tokens >= minimum else 0) for words, tokens in zip(shared, cached, strict=True)]


@given(
    shared=st.lists(st.integers(0, 3000), min_size=1, max_size=30),
    block_size=st.integers(1, 800),
    head=st.integers(0, 60),
    minimum=st.sampled_from([0, 1024]),
    held_back=st.integers(0, 1),
)
def test_the_true_size_is_never_excluded(
    shared: list[int], block_size: int, head: int, minimum: int, held_back: int
) -> None:
    always = head // block_size * block_size
    seen = partings(shared, block_size, head=head, minimum=minimum, held_back=held_back)
    found = block_size_of(seen, num_always_cached=always)
    if found is None:
        assert all(parting.num_cached_tokens <= always for parting in seen)
    else:
        assert found.greatest % block_size == 0
        assert found.divisors
        assert any(size % block_size == 0 for size in found.divisors)
        assert found.value is None or found.value % block_size == 0


@pytest.mark.parametrize("held_back", [0, 1])
@pytest.mark.parametrize(("block_size", "minimum"), [(1, 0), (16, 0), (32, 0), (64, 1024), (128, 1024), (256, 0)])
def test_the_places_of_a_probe_are_enough(block_size: int, minimum: int, held_back: int) -> None:
    values = []
    for seed in range(60):
        shared = places(str(seed), 2048)
        seen = partings(shared, block_size, head=4, minimum=minimum, held_back=held_back)
        found = block_size_of(seen, num_always_cached=4 if block_size == 1 else 0)
        assert found is not None
        values.append(found.value)
    assert set(values) <= {block_size, None}
    assert values.count(None) <= 2


def test_places_are_spread_and_descend() -> None:
    found = places("run", 512)
    assert len(found) == 24
    assert found == sorted(found, reverse=True)
    assert found[-1] < 22
    assert 490 <= found[0] < 512


@given(
    st.sampled_from([(0, 0, "nothing"), (1, 0, "the last token, with its block")])
    | st.just((1, 1, "the last token's block and one more")),
    st.integers(2, 300),
    st.integers(2, 9),
)
def test_what_is_held_back_is_told_by_lengths_around_a_border(
    rule: tuple[int, int, str], block_size: int, num_blocks: int
) -> None:
    last, more, name = rule
    seen = []
    for rest in (0, 1, block_size // 2):
        tokens = num_blocks * block_size + rest
        seen.append(Repeated(tokens, ((tokens - last) // block_size - more) * block_size))
    assert rules_that_fit(seen, block_size) == [name]

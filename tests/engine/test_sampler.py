import math
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anaphora.engine.sampler import NUM_FIRST_CANDIDATES, draw, sample
from anaphora.engine.sampling_params import SamplingParams
from anaphora.engine.sampling_state import SamplingState

EOS = 0


def state(prompt: tuple[int, ...] = (1,), *, key: tuple[int, int] = (5, 1), **params: Any) -> SamplingState:
    return SamplingState(SamplingParams(**({"max_tokens": 99} | params)), prompt, end_token_ids=[EOS], key=key)


def adjusted(logits: list[float], of: SamplingState) -> list[float]:
    row = torch.tensor(logits)
    of.adjust(row)
    return row.tolist()


def probabilities(logits: torch.Tensor, params: SamplingParams, num_points: int = 2000) -> dict[int, float]:
    """The distribution that ``draw`` walks, by trying evenly spaced points of it."""
    found = Counter(draw(logits.clone(), params, (i + 0.5) / num_points) for i in range(num_points))
    return {token_id: n / num_points for token_id, n in sorted(found.items())}


def test_greedy_rows_take_the_likeliest_token() -> None:
    tokens = sample(torch.tensor([[0.0, 2.0, 1.0], [3.0, 2.0, 1.0]]), [state(temperature=0), state(temperature=0)])
    assert [token.token_id for token in tokens] == [1, 0]


def test_the_distribution_is_the_softmax_of_logits_over_temperature() -> None:
    logits = torch.tensor([1.0, 2.0, -1.0, 0.5])
    expected = torch.softmax(logits / 0.7, dim=-1).tolist()
    assert probabilities(logits, SamplingParams(temperature=0.7)) == pytest.approx(dict(enumerate(expected)), abs=1e-3)


def test_top_k_keeps_the_k_likeliest() -> None:
    logits = torch.tensor([0.6, 0.1, 0.25, 0.05]).log()
    assert probabilities(logits, SamplingParams(top_k=2)) == pytest.approx({0: 0.6 / 0.85, 2: 0.25 / 0.85}, abs=1e-3)


def test_top_p_keeps_the_fewest_that_reach_p() -> None:
    logits = torch.tensor([0.1, 0.5, 0.3, 0.1]).log()
    assert probabilities(logits, SamplingParams(top_p=0.75)) == pytest.approx({1: 0.625, 2: 0.375}, abs=1e-3)
    assert set(probabilities(logits, SamplingParams(top_p=1e-9))) == {1}


def test_top_p_is_of_what_top_k_left() -> None:
    """Of 0.4 and 0.3 the first has four sevenths: enough for 0.55, though not of the whole."""
    logits = torch.tensor([0.3, 0.4, 0.2, 0.1]).log()
    assert set(probabilities(logits, SamplingParams(top_k=2, top_p=0.55))) == {1}
    assert set(probabilities(logits, SamplingParams(top_p=0.55))) == {0, 1}


def test_min_p_is_relative_to_the_likeliest() -> None:
    logits = torch.tensor([0.5, 0.26, 0.24]).log()
    assert set(probabilities(logits, SamplingParams(min_p=0.5))) == {0, 1}


def test_top_p_looks_beyond_the_first_candidates_where_it_must() -> None:
    num = 4 * NUM_FIRST_CANDIDATES
    flat = torch.zeros(num)
    drawn = {draw(flat.clone(), SamplingParams(top_p=0.9), (i + 0.5) / num) for i in range(num)}
    assert len(drawn) == math.ceil(0.9 * num)


@given(
    st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=40),
    st.floats(0.05, 2.0),
    st.integers(0, 50),
    st.floats(0.01, 1.0),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0, exclude_max=True),
)
def test_what_is_drawn_is_never_cut(
    logits: list[float], temperature: float, top_k: int, top_p: float, min_p: float, uniform: float
) -> None:
    """Against a plain sort of the whole vocabulary."""
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    drawn = draw(torch.tensor(logits), params, uniform)
    weights = [math.exp((x - max(logits)) / temperature) for x in logits]
    ranked = sorted((w for w in weights if w >= min_p * (1 - 1e-4)), reverse=True)[: top_k or None]
    before = sum(w for w in ranked if w > weights[drawn] * (1 + 1e-4))
    assert weights[drawn] >= ranked[-1] * (1 - 1e-4)
    assert before <= top_p * sum(ranked) * (1 + 1e-4)


def test_logits_that_are_no_numbers_are_noticed() -> None:
    with pytest.raises(AssertionError, match="not numbers"):
        draw(torch.tensor([0.0, torch.nan]), SamplingParams(), 0.5)


def test_a_point_at_the_very_end_still_falls_on_a_token_that_may_be_drawn() -> None:
    assert draw(torch.tensor([0.0, 0.0, -torch.inf]), SamplingParams(), 1 - 2**-53) == 1


def test_random_numbers_depend_on_key_and_position_alone() -> None:
    one, same, other = state(key=(5, 1)), state(key=(5, 1)), state(key=(5, 2))
    first = [one.uniform(), one.uniform()]
    one.observe(3)
    assert first == [same.uniform(), same.uniform()]
    assert first[0] == first[1] != one.uniform()
    assert other.uniform() != same.uniform()
    assert 0 <= state(key=(-1, 0)).uniform() < 1


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    logits = torch.randn(4, 50, generator=torch.Generator().manual_seed(1))
    together = sample(logits.clone(), [state(key=(row, 0), top_p=0.9) for row in range(4)])
    alone = [sample(logits[row : row + 1].clone(), [state(key=(row, 0), top_p=0.9)])[0] for row in range(4)]
    assert together == alone


def test_bias_is_added() -> None:
    assert adjusted([0.0, 1.0, 2.0], state(logit_bias=((0, 5.0), (2, -100.0)))) == [5.0, 1.0, -98.0]


def test_ends_are_masked_until_min_tokens_are_there() -> None:
    of = state(min_tokens=1)
    assert adjusted([3.0, 1.0], of) == [-math.inf, 1.0]
    of.observe(1)
    assert not of.adjusts_logits
    assert adjusted([3.0, 1.0], of) == [3.0, 1.0]


def test_presence_is_paid_once_and_frequency_each_time_and_only_for_output() -> None:
    of = state((2, 2), presence_penalty=0.5, frequency_penalty=0.25)
    assert not of.adjusts_logits
    for token_id in (1, 3, 3):
        of.observe(token_id)
    assert adjusted([1.0, 1.0, 1.0, 1.0], of) == [1.0, 0.25, 1.0, 0.0]


def test_repetition_scales_tokens_of_prompt_and_output() -> None:
    of = state((1,), repetition_penalty=2.0)
    of.observe(2)
    assert adjusted([4.0, 4.0, -4.0], of) == [4.0, 2.0, -8.0]


def test_penalties_change_what_greedy_takes() -> None:
    of = state(temperature=0, frequency_penalty=1.5)
    logits = torch.tensor([[0.0, 2.0, 1.0]])
    taken = []
    for _ in range(3):
        (token,) = sample(logits.clone(), [of])
        of.observe(token.token_id)
        taken.append(token.token_id)
    assert taken == [1, 2, 1]


def test_logprobs_are_taken_after_penalties_and_before_temperature() -> None:
    of = state(temperature=0, logprobs=2, logit_bias=((0, 2.0),))
    (token,) = sample(torch.tensor([[1.0, 2.0, 0.0]]), [of])
    expected = torch.log_softmax(torch.tensor([3.0, 2.0, 0.0]), dim=-1).tolist()
    assert token.logprobs is not None
    assert (token.logprobs.token.token_id, token.logprobs.token.rank) == (0, 1)
    assert [(t.token_id, t.rank) for t in token.logprobs.top] == [(0, 1), (1, 2)]
    assert [t.logprob for t in token.logprobs.top] == pytest.approx(expected[:2])


def test_only_rows_that_asked_get_logprobs() -> None:
    plain, asked = sample(torch.randn(2, 9), [state(), state(logprobs=0)])
    assert plain.logprobs is None
    assert asked.logprobs is not None
    assert (asked.logprobs.token.token_id, asked.logprobs.top) == (asked.token_id, ())

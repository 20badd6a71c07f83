"""Sampling many rows at once takes the tokens that the host's sampler takes one by one."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.engine.gpu.device_sampler import draw_rows
from anaphora.engine.sampler import draw
from anaphora.engine.sampling_params import SamplingParams
from anaphora.engine.sampling_state import SamplingState

PARAMS = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.2, 0.7, 1.0, 2.0]),
    top_p=st.sampled_from([0.1, 0.5, 0.9, 1.0]),
    top_k=st.sampled_from([-1, 0, 1, 3, 50, 5000]),
    min_p=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
)


@settings(max_examples=60, deadline=None)
@given(params=st.lists(PARAMS, min_size=1, max_size=40), seed=st.integers(0, 2**32))
def test_the_same_tokens_as_one_by_one(params: list[SamplingParams], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(len(params) + 2, 300, generator=generator) * 3
    uniforms = torch.rand(len(params), generator=generator, dtype=torch.float64).tolist()
    rows = torch.randperm(len(params) + 2, generator=generator)[: len(params)].tolist()
    sampled = torch.full((len(params) + 2,), -7, dtype=torch.int32)
    draw_rows(logits, rows, params, uniforms, sampled)
    expected = [draw(logits[row], own, uniform) for row, own, uniform in zip(rows, params, uniforms, strict=True)]
    assert sampled[rows].tolist() == expected
    assert set(sampled.tolist()) - set(expected) == {-7}


def state(**options: object) -> SamplingState:
    return SamplingState(SamplingParams(**options), (1, 2), end_token_ids=(3,), key=(0, 0))  # type: ignore[arg-type]


def test_what_needs_the_host() -> None:
    assert state(temperature=0.5, top_p=0.3, top_k=4, min_p=0.1).needs_only_logits
    for options in (
        {"logprobs": 0},
        {"prompt_logprobs": 0},
        {"logit_bias": ((1, 1.0),)},
        {"presence_penalty": 0.1},
        {"frequency_penalty": 0.1},
        {"repetition_penalty": 1.1},
        {"min_tokens": 1},
    ):
        assert not state(**options).needs_only_logits, options
    beyond = state(min_tokens=1)
    beyond.observe(5)
    assert beyond.needs_only_logits

import math
from typing import Any

import pytest

from anaphora.engine.sampling_params import SamplingParams
from anaphora.errors import RequestError


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("max_tokens", -1, "max_tokens must be at least 0, got -1"),
        ("min_tokens", 17, "min_tokens must be at least 0 and at most 16, got 17"),
        ("temperature", -0.1, "temperature must be at least 0.0 and at most 2.0"),
        ("temperature", math.nan, "temperature must be"),
        ("top_p", 0.0, "top_p must be greater than 0.0 and at most 1.0"),
        ("top_k", -2, "top_k must be at least -1"),
        ("min_p", 1.5, "min_p must be"),
        ("presence_penalty", 2.5, "presence_penalty must be"),
        ("frequency_penalty", -2.5, "frequency_penalty must be"),
        ("repetition_penalty", 0.0, "repetition_penalty must be at least 0.01"),
        ("logprobs", 21, "logprobs must be at least 0 and at most 20"),
        ("prompt_logprobs", -1, "prompt_logprobs must be at least 0"),
        ("seed", 2**63, "seed must be"),
        ("stop", ("end", ""), "stop strings must not be empty"),
        ("logit_bias", ((3, 101.0),), "logit_bias must be"),
    ],
)
def test_values_out_of_range_are_refused_by_name(field: str, value: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        SamplingParams(**{field: value})
    assert caught.value.param == field


def test_borders_are_allowed() -> None:
    params = SamplingParams(
        max_tokens=0, temperature=0, top_k=-1, top_p=1, logprobs=20, prompt_logprobs=0, seed=-(2**63)
    )
    assert params.is_greedy


@pytest.mark.parametrize("temperature", [0.0, 1e-257, 9e-6])
def test_temperatures_that_float32_cannot_divide_by_are_greedy(temperature: float) -> None:
    assert SamplingParams(temperature=temperature).is_greedy
    assert not SamplingParams(temperature=1e-5).is_greedy

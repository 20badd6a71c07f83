"""Log-probabilities of output and prompt are the log-softmax of the logits of ``transformers``."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from anaphora.engine.engine_core import EngineCore
from anaphora.engine.outputs import PositionLogprobs
from anaphora.engine.sampling_params import SamplingParams
from anaphora.engine.startup import load_engine
from tests.engine.harness import config_for, finish, request, tokens
from tests.engine.oracle import Oracle

PROMPT = tuple(torch.randint(3, 400, (40,), generator=torch.Generator().manual_seed(8)).tolist())
TOLERANCE = 1e-4


def assert_equal(entry: PositionLogprobs | None, logits: torch.Tensor, token_id: int) -> None:
    expected = torch.log_softmax(logits, dim=-1)
    assert entry is not None
    assert entry.token.token_id == token_id
    assert entry.token.logprob == pytest.approx(expected[token_id].item(), abs=TOLERANCE)
    assert entry.token.rank == int((expected > expected[token_id]).sum()) + 1
    best = expected.topk(len(entry.top))
    assert [t.logprob for t in entry.top] == pytest.approx(best.values.tolist(), abs=TOLERANCE)
    assert [t.token_id for t in entry.top] == best.indices.tolist()
    assert [t.rank for t in entry.top] == list(range(1, len(entry.top) + 1))


@pytest.fixture
def core(tiny_folders: dict[str, Path]) -> EngineCore:
    return load_engine(config_for(tiny_folders["qwen3"], max_num_batched_tokens=27)).core


def test_of_generated_tokens(core: EngineCore, oracles: Callable[[str], Oracle]) -> None:
    params = SamplingParams(temperature=1.5, seed=3, max_tokens=10, logprobs=3, ignore_eos=True)
    outputs = finish(core, [request("a", PROMPT, params)])
    generated = tokens(outputs)["a"]
    logits = oracles("qwen3").logits([*PROMPT, *generated])
    for position, output in enumerate(outputs["a"]):
        assert_equal(output.logprobs, logits[len(PROMPT) - 1 + position], generated[position])


def prompt_logprobs(core: EngineCore, name: str, max_tokens: int) -> Sequence[PositionLogprobs | None]:
    params = SamplingParams(temperature=0, max_tokens=max_tokens, prompt_logprobs=2)
    first = finish(core, [request(name, PROMPT, params)])[name][0]
    assert first.ledger is not None
    assert first.ledger.num_cached_tokens == 0
    assert first.prompt_logprobs is not None
    return first.prompt_logprobs


def test_of_the_prompt_cold_and_warm(core: EngineCore, oracles: Callable[[str], Oracle]) -> None:
    logits = oracles("qwen3").logits(PROMPT)
    for name, max_tokens in (("cold", 1), ("warm", 1), ("score-only", 0)):
        entries = prompt_logprobs(core, name, max_tokens)
        assert len(entries) == len(PROMPT)
        assert entries[0] is None
        for position, entry in enumerate(entries[1:], 1):
            assert_equal(entry, logits[position - 1], PROMPT[position])
    assert core.stats().num_queried_tokens == 0

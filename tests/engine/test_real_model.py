"""The default model itself, a few prompts: the whole matrix on it is in the soak."""

import pytest

from anaphora.checkpoints.checkpoint import find_checkpoint
from anaphora.engine.sampling_params import SamplingParams
from anaphora.engine.startup import load_engine
from tests.engine.harness import config_for, finish, request, tokens
from tests.engine.oracle import Comparison, Oracle

QUESTIONS = (
    "What is the capital of France?",
    "Write one sentence about the sea.",
    "Explain in two sentences why the sky is blue, to a child of six who has never heard of light.",
)
NUM_TOKENS = 24


@pytest.mark.real_model
def test_greedy_tokens_equal_those_of_transformers_cold_and_from_the_cache(comparison: Comparison) -> None:
    checkpoint = find_checkpoint()
    loaded = load_engine(config_for(checkpoint.path, kv_cache_memory_bytes=2**26), checkpoint)
    prompts = [loaded.tokenizer.encode_chat([{"role": "user", "content": question}]) for question in QUESTIONS]
    params = SamplingParams(temperature=0, max_tokens=NUM_TOKENS)
    cold = tokens(finish(loaded.core, [request(str(i), prompt, params) for i, prompt in enumerate(prompts)]))
    hits = [finish(loaded.core, [request(f"hit-{i}", prompt, params)]) for i, prompt in enumerate(prompts)]
    oracle = Oracle(checkpoint.path)
    own = Comparison()
    for index, (prompt, outputs) in enumerate(zip(prompts, hits, strict=True)):
        name = f"hit-{index}"
        ledger = outputs[name][-1].ledger
        assert ledger is not None
        assert ledger.num_cached_tokens == (len(prompt) - 1) // 16 * 16 > 0
        for generated in (cold[str(index)], tokens(outputs)[name]):
            assert 4 < len(generated) <= NUM_TOKENS
            own.add(oracle.compare(prompt, generated))
    assert own.num_divergences == 0
    comparison.add(own)

"""Schedules to be played on two engines: requests that share beginnings, come between steps, and are aborted."""

import random
from typing import Any

from anaphora.engine.core_output import CoreOutput
from anaphora.engine.engine_core import EngineCore
from anaphora.engine.request import GenerationRequest
from anaphora.engine.sampling_params import SamplingParams
from anaphora.types import RequestId
from tests.models_for_tests.tiny_tokenizer import VOCAB_SIZE

LIMITS: dict[str, Any] = {"max_num_batched_tokens": 64, "max_num_seqs": 5, "num_gpu_blocks_override": 40}
PARAMS = (
    SamplingParams(max_tokens=20, temperature=0.0),
    SamplingParams(max_tokens=25, temperature=0.8, top_p=0.9, seed=3),
    SamplingParams(max_tokens=9, temperature=0.0, logprobs=2),
    SamplingParams(max_tokens=30, temperature=1.0, top_k=5, min_tokens=4),
    SamplingParams(max_tokens=12, temperature=0.7, repetition_penalty=1.2, prompt_logprobs=1),
    SamplingParams(max_tokens=1, temperature=0.0),
    SamplingParams(max_tokens=17, temperature=0.0, ignore_eos=True, stop_token_ids=tuple(range(0, VOCAB_SIZE, 9))),
)


def requests(seed: int, num: int) -> list[GenerationRequest]:
    """Prompts that share beginnings of several lengths, with all sorts of settings."""
    rng = random.Random(seed)
    shared = [rng.randrange(VOCAB_SIZE) for _ in range(90)]
    return [
        GenerationRequest(
            request_id=RequestId(f"r{seed}-{index}"),
            prompt_token_ids=shared[: rng.choice([0, 16, 40, 90])]
            + [rng.randrange(VOCAB_SIZE) for _ in range(rng.choice([1, 5, 20, 70]))],
            params=rng.choice(PARAMS),
        )
        for index in range(num)
    ]


def outcome(output: CoreOutput) -> tuple[CoreOutput, list[Any]]:
    """An output without its times; of log-probabilities the tokens, as the last digits differ."""
    entries = [*((output.logprobs and [output.logprobs]) or []), *(output.prompt_logprobs or ())]
    shown = [entry and [token.token_id for token in (entry.token, *entry.top)] for entry in entries]
    return output._replace(scheduled_s=None, stepped_s=0.0, logprobs=None, prompt_logprobs=None), shown


def play(core: EngineCore, seed: int) -> list[tuple[CoreOutput, list[Any]]]:
    """Requests that come and are aborted between steps; everything that comes out."""
    rng = random.Random(seed)
    coming = requests(seed, 10)
    outputs: list[CoreOutput] = []
    while True:
        while coming and rng.random() < 0.4:
            core.add(coming.pop())
        if rng.random() < 0.05:
            outputs += core.abort(RequestId(f"r{seed}-{rng.randrange(10)}"))
        step = core.step()
        if step is None and not coming:
            return [outcome(output) for output in outputs]
        outputs += step or []

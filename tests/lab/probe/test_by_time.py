"""What times tell: never a wrong size more often than is said, and the right one where the noise allows it."""

import random

import numpy as np
import pytest

from anaphora.lab.probe.by_time import Timed, num_computed, steps_by_time
from anaphora.lab.probe.finding import Bound, Confidence
from anaphora.lab.probe.judging import MAX_ERROR, time_judge
from tests.lab.probe.planted import Blocks, Off, PlantedServer
from tests.lab.probe.probing import found

NUM_SEEDS = 20


def sample(block_size: int, minimum: int, *, noise_ms: float, seed: int, caching: bool = True) -> list[Timed]:
    """Times of prompts of 1 024 tokens, 0.5 ms a computed token and a little for attention."""
    chosen = random.Random(seed)
    timed = []
    for _ in range(48):
        one = Timed(1024, chosen.randrange(1000), 0.0)
        computed = num_computed(one, block_size, minimum) if caching else one.num_tokens
        ms = 20 + 0.5 * computed + 1e-5 * computed**2 + chosen.gauss(0, noise_ms)
        timed.append(Timed(one.num_tokens, one.num_shared, ms))
    return timed


@pytest.mark.parametrize("noise_ms", [0.2, 4.0, 60.0])
@pytest.mark.parametrize(("block_size", "minimum"), [(1, 0), (16, 0), (128, 0), (128, 512)])
def test_wrong_sizes_are_rare_at_every_noise(block_size: int, minimum: int, noise_ms: float) -> None:
    results = [steps_by_time(sample(block_size, minimum, noise_ms=noise_ms, seed=seed)) for seed in range(NUM_SEEDS)]
    blocks = [result.block_size for result in results]
    wrong = [b for b in blocks if b and (b.value < block_size if b.is_limit else b.value != block_size)]
    assert len(wrong) <= 1, wrong
    right = [b for b in blocks if b and not b.is_limit and b.value == block_size]
    if block_size >= 16 and noise_ms <= block_size * 0.5 / 4:
        assert len(right) >= 0.9 * NUM_SEEDS


@pytest.mark.parametrize("noise_ms", [0.2, 10.0])
def test_no_cache_gives_no_steps(noise_ms: float) -> None:
    results = [steps_by_time(sample(16, 0, noise_ms=noise_ms, seed=seed, caching=False)) for seed in range(NUM_SEEDS)]
    assert sum(result.block_size is not None for result in results) <= 1


def test_too_few_samples_tell_nothing() -> None:
    assert steps_by_time(sample(16, 0, noise_ms=0.1, seed=0)[:6]).block_size is None
    assert steps_by_time([]).minimum is None


def test_a_judge_of_times_errs_no_more_often_than_it_says() -> None:
    draw = np.random.default_rng(0)
    wrong = judged = 0
    for spread in (0.02, 0.1, 0.2, 0.4, 1.0):
        for _ in range(100):
            judge = time_judge(np.exp(draw.normal(1, spread, 8)).tolist(), np.exp(draw.normal(0, spread, 8)).tolist())
            if judge is None:
                continue
            new, repeated = np.exp(draw.normal(1, spread, 200)), np.exp(draw.normal(0, spread, 200))
            wrong += int((new < judge.limit_ms).sum() + (repeated >= judge.limit_ms).sum())
            judged += 400
    assert judged > 0
    assert wrong <= MAX_ERROR * judged


@pytest.mark.parametrize(("new", "repeated"), [([5.0] * 8, [5.0] * 8), ([4.0] * 8, [5.0] * 8), ([5.0], [1.0])])
def test_times_that_are_not_apart_have_no_judge(new: list[float], repeated: list[float]) -> None:
    assert time_judge(new, repeated) is None


@pytest.mark.parametrize("block_size", [16, 128])
def test_a_server_that_tells_nothing_is_timed(block_size: int) -> None:
    server = PlantedServer(Blocks(block_size, capacity=20_000), tells="nothing", noise=0.004, token_ms=1.0)
    findings = found(server, max_wait_s=8)
    assert findings["reuse"].confidence is Confidence.LIKELY
    assert findings["block_size"].value == findings["minimum"].value == block_size
    assert "held_back" not in findings or findings["held_back"].value is None
    capacity = findings["capacity"]
    assert capacity.low is not None
    assert capacity.high is not None
    assert capacity.low <= 20_000 * 1.03
    assert capacity.high >= 20_000 * 0.97


@pytest.mark.parametrize("noise", [0.5, 1.5])
@pytest.mark.parametrize("cache", [Blocks, Off])
def test_noise_that_hides_hits_is_admitted(noise: float, cache: type[Blocks] | type[Off]) -> None:
    for seed in range(3):
        findings = found(PlantedServer(cache(), tells="nothing", noise=noise, token_ms=0.02, seed=seed), max_wait_s=2)
        assert all(finding.value is None for finding in findings.values()), findings


def test_without_a_tokenizer_times_tell_no_block_size() -> None:
    findings = found(PlantedServer(Blocks(), tells="nothing", has_tokenizer=False), max_wait_s=0)
    assert findings["block_size"].value is None
    assert "--tokenizer" in findings["block_size"].evidence
    assert findings["capacity"].bound is Bound.AT_LEAST

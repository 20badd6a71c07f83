"""Passes that a device goes on with before the host knows the results of the one before, by the emulated runner."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from anaphora.engine.request import GenerationRequest
from anaphora.engine.sampling_params import SamplingParams
from anaphora.engine.startup import load_engine
from anaphora.types import RequestId
from tests.engine.gpu.emulated import emulated_core
from tests.engine.harness import config_for
from tests.models_for_tests.tiny_tokenizer import VOCAB_SIZE

if TYPE_CHECKING:
    from anaphora.engine.core_output import CoreOutput

LIMITS: dict[str, Any] = {"max_num_batched_tokens": 256, "max_num_seqs": 16, "num_gpu_blocks_override": 120}
TARGET = 30
GREEDY = SamplingParams(max_tokens=7, temperature=0.0, ignore_eos=True)
PARAMS = (GREEDY, GREEDY, SamplingParams(max_tokens=5, temperature=0.9, seed=4), SamplingParams(max_tokens=1))
ON_HOST = (
    SamplingParams(max_tokens=4, temperature=0.0, logprobs=2),
    SamplingParams(max_tokens=4, temperature=0.0, prompt_logprobs=1),
)


def requests(seed: int, num: int, params: Sequence[SamplingParams] = PARAMS) -> list[GenerationRequest]:
    """Prompts that begin alike, so that those of one pass read what another one computes."""
    rng = random.Random(seed)
    shared = [rng.randrange(VOCAB_SIZE) for _ in range(40)]
    return [
        GenerationRequest(
            request_id=RequestId(f"{seed}-{index}"),
            prompt_token_ids=shared[: rng.choice([0, 16, 40])] + [rng.randrange(VOCAB_SIZE) for _ in range(9)],
            params=rng.choice(params),
        )
        for index in range(num)
    ]


class Watched:
    """A core that is audited after every step, and what came out of it."""

    def __init__(self, folder: Path, **options: Any) -> None:
        config = config_for(folder, **LIMITS | {"target_prefill_tokens": TARGET} | options)
        self.core, self.runner = emulated_core(config, max_captured=64, num_spare_blocks=16)
        self.outputs: list[CoreOutput] = []
        self.num_behind = 0
        """Passes that were begun behind another."""

    def step(self) -> bool:
        """Whether there was anything to do."""
        extend, found = self.core.scheduler.extend, []

        def watched() -> Any:
            found.append(extend())
            return found[-1]

        self.core.scheduler.extend = watched  # type: ignore[method-assign]
        try:
            outputs = self.core.step()
        finally:
            self.core.scheduler.extend = extend  # type: ignore[method-assign]
        self.num_behind += sum(output is not None for output in found)
        self.core.scheduler.check_integrity()
        self.outputs += outputs or []
        return outputs is not None

    def finish(self) -> None:
        while self.step():
            pass
        stats = self.core.stats()
        assert (stats.num_running, stats.num_waiting, stats.num_free_blocks) == (0, 0, stats.num_blocks)

    def tokens(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for output in self.outputs:
            if output.token_id is not None:
                found.setdefault(output.request_id, []).append(output.token_id)
        return found

    def errors(self) -> dict[str, str]:
        return {output.request_id: type(output.error).__name__ for output in self.outputs if output.error is not None}


def alone(folder: Path, asked: Sequence[GenerationRequest]) -> dict[str, list[int]]:
    """What each request gets on a CPU, one after the other."""
    core = load_engine(config_for(folder, **LIMITS)).core
    found: dict[str, list[int]] = {}
    for request in asked:
        core.add(request)
        while (outputs := core.step()) is not None:
            for output in outputs:
                if output.token_id is not None:
                    found.setdefault(output.request_id, []).append(output.token_id)
    return found


def test_tokens_and_ledgers_of_passes_are_those_of_one_step(tiny_folders: dict[str, Path]) -> None:
    asked = requests(1, 8)
    watched = Watched(tiny_folders["llama3"])
    whole = load_engine(config_for(tiny_folders["llama3"], **LIMITS | {"target_prefill_tokens": 0})).core
    for request in asked:
        watched.core.add(request)
        whole.add(request)
    outputs: list[CoreOutput] = []
    while (step := whole.step()) is not None:
        outputs += step
    watched.finish()
    assert watched.num_behind > 1
    ledgers = [{o.request_id: o.ledger for o in each} for each in (outputs, watched.outputs)]
    assert ledgers[0] == ledgers[1]
    assert sum(ledger.num_cached_tokens for ledger in ledgers[0].values() if ledger is not None) >= 48
    assert watched.tokens() == alone(tiny_folders["llama3"], asked)


@pytest.mark.parametrize("seed", range(6))
def test_whoever_comes_and_goes_the_others_get_what_they_get_alone(seed: int, tiny_folders: dict[str, Path]) -> None:
    rng = random.Random(seed)
    asked = requests(seed, 24, PARAMS * 3 + ON_HOST if seed % 2 else PARAMS)
    watched, coming, gone = Watched(tiny_folders["llama3"]), list(asked), set[str]()
    while coming or watched.step():
        for _ in range(rng.choice([0, 0, 1, 6])):
            if coming:
                watched.core.add(coming.pop(0))
        if rng.random() < 0.3 and len(coming) < 20:
            name = RequestId(f"{seed}-{rng.randrange(24 - len(coming))}")
            aborted = watched.core.abort(name)
            gone |= {output.request_id for output in aborted}
            watched.core.scheduler.check_integrity()
        if coming:
            watched.step()
    watched.finish()
    assert watched.num_behind > 0
    wanted = alone(tiny_folders["llama3"], asked)
    found = watched.tokens()
    for wanted_name, tokens in wanted.items():
        got = found.get(wanted_name, [])
        assert got == (tokens[: len(got)] if wanted_name in gone else tokens), wanted_name


def test_what_the_host_samples_is_not_followed(tiny_folders: dict[str, Path]) -> None:
    watched = Watched(tiny_folders["llama3"])
    for request in requests(3, 8, ON_HOST[:1]):
        watched.core.add(request)
    watched.finish()
    assert watched.num_behind == 0


def with_two_passes(folder: Path) -> tuple[Watched, list[GenerationRequest]]:
    """Both are begun, and the first one's results are taken in next."""
    watched, asked = Watched(folder), requests(5, 6, (GREEDY,))
    for request in asked:
        watched.core.add(request)
    return watched, asked


def test_the_step_after_the_last_pass_runs_ahead(tiny_folders: dict[str, Path]) -> None:
    """Of those that were taken in before, the host knows the tokens; of the last pass, the device."""
    watched, asked = with_two_passes(tiny_folders["llama3"])
    watched.finish()
    assert watched.num_behind > 0
    assert watched.tokens() == alone(tiny_folders["llama3"], asked)
    assert watched.runner.num_ahead == sum(len(tokens) - 1 for tokens in watched.tokens().values())


def test_a_request_that_goes_while_its_pass_is_computed(tiny_folders: dict[str, Path]) -> None:
    watched, asked = with_two_passes(tiny_folders["llama3"])
    watched.step()
    assert watched.num_behind == 1
    first, second = [o.request_id for o in watched.outputs], watched.core.scheduler.passes[0]
    victim = second.scheduled[0].request.request_id
    assert victim not in first
    [output] = watched.core.abort(victim)
    assert output.finish_reason == "abort"
    watched.finish()
    assert victim not in watched.tokens()
    wanted = alone(tiny_folders["llama3"], asked)
    assert watched.tokens() == {name: tokens for name, tokens in wanted.items() if name != victim}


def test_a_pass_that_fails_takes_the_one_behind_back(
    tiny_folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its requests are told; the others wait again and get what is theirs."""
    watched, asked = with_two_passes(tiny_folders["llama3"])
    landed = watched.runner.landed
    monkeypatch.setattr(watched.runner, "landed", lambda *args: 1 / 0)
    watched.step()
    monkeypatch.setattr(watched.runner, "landed", landed)
    assert watched.num_behind == 1
    assert set(watched.errors().values()) == {"EngineStepError"}
    assert watched.core.scheduler.passes == ()
    watched.finish()
    wanted = alone(tiny_folders["llama3"], asked)
    assert watched.tokens() == {name: tokens for name, tokens in wanted.items() if name not in watched.errors()}
    assert 0 < len(watched.errors()) < len(asked)


def test_a_pass_behind_that_fails_leaves_the_first_one_alone(
    tiny_folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    watched, asked = with_two_passes(tiny_folders["llama3"])
    launch, num_launched = watched.runner._launcher.launch, 0

    def no_second(*args: Any) -> Any:
        nonlocal num_launched
        num_launched += 1
        return launch(*args) if num_launched != 2 else 1 / 0

    monkeypatch.setattr(watched.runner._launcher, "launch", no_second)
    watched.finish()
    wanted = alone(tiny_folders["llama3"], asked)
    assert 0 < len(watched.errors()) < len(asked)
    assert watched.tokens() == {name: tokens for name, tokens in wanted.items() if name not in watched.errors()}


@pytest.mark.parametrize("at", ["launch", "landed"])
def test_an_interrupt_leaves_nothing_behind(
    at: str, tiny_folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched, asked = with_two_passes(tiny_folders["llama3"])
    owner: Any = watched.runner if at == "landed" else watched.runner._launcher
    own, num_called = getattr(owner, at), 0

    def interrupt(*args: Any) -> Any:
        nonlocal num_called
        num_called += 1
        if num_called == (1 if at == "landed" else 2):
            raise KeyboardInterrupt
        return own(*args)

    monkeypatch.setattr(owner, at, interrupt)
    with pytest.raises(KeyboardInterrupt):
        watched.step()
    assert watched.core.scheduler.passes == ()
    watched.core.scheduler.check_integrity()
    watched.finish()
    assert watched.tokens() == alone(tiny_folders["llama3"], asked)

"""Passes that fail, are taken back or are more than usual while others are under way: each request gets its own."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch

from anaphora.engine.request import GenerationRequest
from anaphora.engine.sampling_params import SamplingParams
from anaphora.types import Namespace, RequestId
from tests.engine.gpu.test_passes import GREEDY, Watched, alone, with_two_passes
from tests.models_for_tests.tiny_tokenizer import VOCAB_SIZE

ONE = SamplingParams(max_tokens=1, temperature=0.0, ignore_eos=True)
SEEDED = SamplingParams(max_tokens=6, temperature=1.0, seed=7, ignore_eos=True)
ECHO = SamplingParams(max_tokens=2, temperature=0.0, prompt_logprobs=1, ignore_eos=True)
NO_MEMORY = torch.OutOfMemoryError("CUDA out of memory")


def prompt(seed: int, length: int = 20) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(VOCAB_SIZE) for _ in range(length)]


def ask(watched: Watched, name: str, token_ids: list[int], params: SamplingParams) -> GenerationRequest:
    request = GenerationRequest(request_id=RequestId(name), prompt_token_ids=token_ids, params=params)
    watched.core.add(request)
    return request


def failing(own: Any, at: int, error: BaseException, *, after: bool = False) -> Any:
    """``own``, but for its call number ``at``, which raises: instead of it, or ``after`` it."""
    num_calls = 0

    def called(*args: Any) -> Any:
        nonlocal num_calls
        num_calls += 1
        if num_calls != at:
            return own(*args)
        if after:
            own(*args)
        raise error

    return called


def test_the_device_has_no_tokens_of_the_first_pass_once_another_was_tried(tiny_folders: dict[str, Path]) -> None:
    """What failed may have sampled before it did."""
    watched, asked = with_two_passes(tiny_folders["llama3"])
    launcher: Any = watched.runner._launcher
    launcher.launch = failing(launcher.launch, 2, NO_MEMORY, after=True)
    watched.finish()
    wanted = alone(tiny_folders["llama3"], asked)
    assert watched.errors()
    assert watched.tokens() == {name: tokens for name, tokens in wanted.items() if name not in watched.errors()}


@pytest.mark.parametrize("is_lost", [True, False], ids=["the first pass fails", "who is read from is aborted"])
def test_what_was_sampled_and_taken_back_does_not_count(is_lost: bool, tiny_folders: dict[str, Path]) -> None:
    """Log-probabilities of a prompt are computed when a pass is begun, and its tokens with them."""
    watched = Watched(tiny_folders["llama3"], target_prefill_tokens=30 if is_lost else 60, block_size=4)
    shared = prompt(9, 16)
    if is_lost:
        for number in range(2):
            ask(watched, f"{number}", prompt(number), GREEDY)
        ask(watched, "echo", prompt(3, 10), ECHO)
        seeded = ask(watched, "seeded", prompt(5), SEEDED)
        runner: Any = watched.runner
        runner.landed = failing(runner.landed, 1, RuntimeError("lost"))
    else:
        for number in range(3):
            ask(watched, f"{number}", prompt(number, 24), GREEDY)
        ask(watched, "echo", prompt(3, 4), ECHO)
        ask(watched, "read", shared + prompt(4, 8), GREEDY)
        seeded = ask(watched, "seeded", shared + prompt(5, 8), SEEDED)
        watched.step()
        watched.core.abort(RequestId("read"))
    watched.finish()
    assert watched.tokens()["seeded"] == alone(tiny_folders["llama3"], [seeded])["seeded"]


def test_no_more_requests_run_ahead_than_a_pass_has_rows(tiny_folders: dict[str, Path]) -> None:
    limits = {"max_num_batched_tokens": 4096, "max_num_seqs": 400, "num_gpu_blocks_override": 1000}
    watched = Watched(tiny_folders["llama3"], target_prefill_tokens=512, **limits)
    launcher: Any = watched.runner._launcher
    launcher._buckets = (1024,)
    for number in range(300):
        ask(watched, f"{number}", prompt(number, 4), SamplingParams(max_tokens=3, temperature=0.0, ignore_eos=True))
    watched.finish()
    assert watched.errors() == {}
    assert len(watched.tokens()) == 300


def test_after_a_pass_of_several_launches_nothing_runs_ahead(tiny_folders: dict[str, Path]) -> None:
    limits = {"max_num_batched_tokens": 2048, "num_gpu_blocks_override": 200}
    watched = Watched(tiny_folders["llama3"], target_prefill_tokens=300, **limits)
    asked = [
        ask(watched, "first", prompt(2, 300), GREEDY),
        ask(watched, "short", prompt(3), GREEDY),
        ask(watched, "echo", prompt(4, 255), ECHO),
        ask(watched, "last", prompt(5), GREEDY),
    ]
    watched.finish()
    assert watched.tokens() == alone(tiny_folders["llama3"], asked)


def test_a_pass_of_many_launches_leaves_the_tokens_of_the_one_before(tiny_folders: dict[str, Path]) -> None:
    limits = {"max_num_batched_tokens": 4096, "max_num_seqs": 1100, "num_gpu_blocks_override": 2000, "block_size": 4}
    watched = Watched(tiny_folders["llama3"], target_prefill_tokens=300, **limits)
    shared = prompt(1, 8)
    ask(watched, "warm", [*shared, 1], ONE)
    watched.finish()
    first = ask(watched, "first", prompt(9, 300), ONE)
    for number in range(800):
        ask(watched, f"{number}", [*shared, number % VOCAB_SIZE], ONE)
    watched.finish()
    assert watched.tokens()["first"] == alone(tiny_folders["llama3"], [first])["first"]


def test_who_decodes_does_not_starve_however_many_hits_come(tiny_folders: dict[str, Path]) -> None:
    limits = {"max_num_batched_tokens": 2048, "max_num_seqs": 256, "num_gpu_blocks_override": 3000}
    watched = Watched(tiny_folders["llama3"], target_prefill_tokens=512, **limits)
    shared = prompt(1, 32)
    ask(watched, "warm", [*shared, 1], ONE)
    watched.finish()
    ask(watched, "decodes", [1, 2, 3], SamplingParams(max_tokens=50, temperature=0.0, ignore_eos=True))
    watched.step()
    for number in range(3):  # so that the target keeps somebody out
        ask(watched, f"long {number}", prompt(30 + number, 400), ONE)
    gaps, num_passes = [], 0
    for number in range(60):
        ask(watched, f"hit {number}", [*shared, number % VOCAB_SIZE], GREEDY)
        num_before = len(watched.outputs)
        watched.step()
        num_passes += 1
        if any(output.request_id == "decodes" for output in watched.outputs[num_before:]):
            gaps.append(num_passes)
            num_passes = 0
    assert max(gaps) <= 7
    watched.finish()


def test_an_interrupt_between_two_parts_of_a_pass_notes_neither(tiny_folders: dict[str, Path]) -> None:
    watched = Watched(tiny_folders["llama3"])
    asked = [ask(watched, "a", prompt(1), SEEDED)]
    for _ in range(2):
        watched.step()
    asked.append(ask(watched, "b", prompt(2), SEEDED))
    runner: Any = watched.runner
    runner.landed = failing(runner.landed, 2, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        watched.step()
    watched.finish()
    assert watched.tokens() == alone(tiny_folders["llama3"], asked)


def test_pins_give_way_for_blocks_alone(tiny_folders: dict[str, Path]) -> None:
    limits = {"max_num_batched_tokens": 128, "max_model_len": 120, "enable_chunked_prefill": False, "block_size": 4}
    watched = Watched(tiny_folders["llama3"], target_prefill_tokens=40, **limits)
    ask(watched, "warm", prompt(5, 48), ONE)
    watched.finish()
    watched.core.pin("pin", Namespace(""), prompt(5, 48))
    ask(watched, "a", prompt(1, 48), ONE)
    ask(watched, "b", prompt(2, 48), ONE)
    watched.step()
    watched.core.abort(RequestId("b"))
    ask(watched, "c", prompt(3, 48), ONE)
    watched.step()
    assert [pin.name for pin in watched.core.pins()] == ["pin"]
    watched.core.unpin("pin")
    watched.finish()


def test_a_failure_is_told_though_an_interrupt_comes_before_the_end_of_the_step(
    tiny_folders: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    watched, asked = with_two_passes(tiny_folders["llama3"])
    runner: Any = watched.runner
    runner._launcher.launch = failing(runner._launcher.launch, 2, RuntimeError("no"))
    runner.landed = failing(runner.landed, 1, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        watched.step()
    watched.finish()
    assert {output.request_id for output in watched.outputs if output.is_last} == {each.request_id for each in asked}
    assert set(watched.errors().values()) == {"EngineStepError"}


def test_no_memory_to_run_ahead_costs_nothing_but_that(tiny_folders: dict[str, Path]) -> None:
    watched, asked = with_two_passes(tiny_folders["llama3"])
    launcher: Any = watched.runner._launcher
    launcher.launch = failing(launcher.launch, 3, NO_MEMORY)
    watched.finish()
    assert watched.errors() == {}
    assert watched.tokens() == alone(tiny_folders["llama3"], asked)


def test_chunks_without_a_token_do_not_pile_up(tiny_folders: dict[str, Path]) -> None:
    """One is computed and one stands behind it: who comes meanwhile is next."""
    watched = Watched(tiny_folders["llama3"], max_num_batched_tokens=32)
    launcher: Any = watched.runner._launcher
    launched: list[Any] = []
    waited: list[int] = []
    own = launcher.launch

    def launch(*args: Any) -> Any:
        found = own(*args)
        launched.append(found)
        object.__setattr__(found, "_event", _Noted(len(launched), waited))
        return found

    launcher.launch = launch
    ask(watched, "long", prompt(1, 300), ONE)
    for number in range(1, 9):
        watched.step()
        assert max(waited, default=0) >= number - 1
    watched.finish()


class _Noted:
    """An event that notes that it was waited for."""

    def __init__(self, number: int, waited: list[int]) -> None:
        self._number = number
        self._waited = waited

    def synchronize(self) -> None:
        self._waited.append(self._number)

"""The GPU's runner, emulated, against the CPU engine: same schedule, so same tokens, ledgers and counts."""

import weakref
from pathlib import Path
from typing import Any

import pytest
import torch

from anaphora.engine.engine_core import MAX_FAILED_STEPS
from anaphora.engine.request import GenerationRequest
from anaphora.engine.sampling_params import SamplingParams
from anaphora.engine.startup import load_engine
from anaphora.errors import StepMemoryError
from anaphora.types import RequestId
from tests.engine.gpu.emulated import emulated_core
from tests.engine.gpu.schedules import LIMITS, play
from tests.engine.harness import config_for


@pytest.mark.parametrize(("architecture", "max_captured"), [("llama3", 0), ("qwen3", 4), ("llama3", 64)])
def test_same_tokens_ledgers_and_counts_as_on_cpu(
    architecture: str, max_captured: int, tiny_folders: dict[str, Path]
) -> None:
    config = config_for(tiny_folders[architecture], **LIMITS)
    on_cpu = load_engine(config).core
    emulated, runner = emulated_core(config, max_captured=max_captured)
    for seed in range(2):
        assert play(emulated, seed) == play(on_cpu, seed)
    assert emulated.stats() == on_cpu.stats()
    assert emulated.stats().num_cached_tokens > 100
    assert (runner.num_ahead > 0) == (max_captured > 0)


@pytest.mark.parametrize(
    ("num_spare_blocks", "num_asked"),
    [(2, 2), (1, 2 + 4), (0, 2 + 4)],
    ids=["enough spare blocks", "too few", "none"],
)
def test_tokens_run_ahead(num_spare_blocks: int, num_asked: int, tiny_folders: dict[str, Path]) -> None:
    """Only what is first is computed when it is asked for and, with too few spare blocks, what begins a block."""
    config = config_for(tiny_folders["llama3"], **LIMITS)
    core, runner = emulated_core(config, max_captured=8, num_spare_blocks=num_spare_blocks)
    params = SamplingParams(max_tokens=40, temperature=0.0, ignore_eos=True)
    for name in "ab":
        core.add(GenerationRequest(request_id=RequestId(name), prompt_token_ids=[1, 2, 3], params=params))
    assert len([output for _ in range(40) for output in core.step() or ()]) == 80
    assert runner.num_ahead == 80 - num_asked


def test_what_begins_a_block_ahead_is_read_from_the_block(tiny_folders: dict[str, Path]) -> None:
    """Its first token lies in a spare block at first, which others write to at once: poison tells of a wrong place."""
    config = config_for(tiny_folders["qwen3"], **LIMITS | {"block_size": 4})
    params = SamplingParams(max_tokens=30, temperature=0.0, ignore_eos=True)
    texts = []
    for num_spare_blocks in (5, 0):
        core, runner = emulated_core(config, max_captured=8, num_spare_blocks=num_spare_blocks)
        for index in range(4):  # so that each begins its blocks in another step
            prompt = [1 + index, *range(5, 10 + index)]
            core.add(GenerationRequest(request_id=RequestId(f"{index}"), prompt_token_ids=prompt, params=params))
        outputs = []
        while (step := core.step()) is not None:
            outputs += step
            core.scheduler.check_integrity()
        texts.append([(output.request_id, output.token_id) for output in outputs])
        assert (runner.num_ahead > 4 * 20) == (num_spare_blocks > 0)
    assert texts[0] == texts[1]


def test_nothing_runs_ahead_while_somebody_waits(tiny_folders: dict[str, Path]) -> None:
    core, runner = emulated_core(config_for(tiny_folders["llama3"], **LIMITS | {"max_num_seqs": 1}), max_captured=8)
    params = SamplingParams(max_tokens=6, temperature=0.0, ignore_eos=True)
    for name in "ab":
        core.add(GenerationRequest(request_id=RequestId(name), prompt_token_ids=[1, 2, 3], params=params))
    for _ in range(6):
        core.step()
    assert runner.num_ahead == 0
    while core.step() is not None:
        pass
    assert runner.num_ahead == 5


def test_a_failed_step_leaves_nothing_under_way(
    tiny_folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    core, runner = emulated_core(config_for(tiny_folders["llama3"], **LIMITS), max_captured=8)
    params = SamplingParams(max_tokens=9, temperature=0.0, ignore_eos=True)

    def ask(name: str) -> None:
        return core.add(GenerationRequest(request_id=RequestId(name), prompt_token_ids=[1, 2, 3], params=params))

    ask("a")
    core.step()
    was_ahead = runner.is_ahead
    monkeypatch.setattr(runner, "landed", lambda *args: 1 / 0)
    failed = core.step()
    assert failed is not None
    assert [type(output.error).__name__ for output in failed] == ["EngineStepError"]
    assert (was_ahead, runner.is_ahead) == (True, False)
    monkeypatch.undo()
    ask("b")
    assert len([output for _ in range(9) for output in core.step() or ()]) == 9
    core.scheduler.check_integrity()


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("Triton Error [CUDA]: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
    ids=["torch", "triton", "cublas"],
)
def test_a_step_without_memory_fails_clearly_and_the_engine_lives(
    tiny_folders: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    """However often in a row: what found no room is told, nothing leaks, and what fits is computed as ever."""
    core, runner = emulated_core(config_for(tiny_folders["llama3"], **LIMITS), max_captured=8)
    params = SamplingParams(max_tokens=9, temperature=0.0, ignore_eos=True)
    launch = runner._launcher.launch

    def no_room_for_long_steps(batch: Any, draws: Any = ()) -> Any:
        if batch.num_tokens > 20:
            raise error.with_traceback(None)
        return launch(batch, draws)

    monkeypatch.setattr(runner._launcher, "launch", no_room_for_long_steps)
    for number in range(2 * MAX_FAILED_STEPS):
        prompt = list(range(3, 33))
        core.add(GenerationRequest(request_id=RequestId(f"long-{number}"), prompt_token_ids=prompt, params=params))
        failed = core.step()
        assert failed is not None
        assert [type(output.error) for output in failed] == [StepMemoryError]
        assert "no memory left for this step: send the request again" in str(failed[0].error)
        core.scheduler.check_integrity()
        assert core.stats().num_free_blocks == core.stats().num_blocks
    core.add(GenerationRequest(request_id=RequestId("short"), prompt_token_ids=[1, 2, 3], params=params))
    assert len([output for _ in range(9) for output in core.step() or ()]) == 9


def test_what_a_step_without_memory_had_computed_is_gone_before_memory_is_given_back(
    tiny_folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only once the error is forgotten, whose traceback holds the tensors: what is in use cannot be given back."""
    core, runner = emulated_core(config_for(tiny_folders["llama3"], **LIMITS), max_captured=8)
    computed: list[weakref.ref[torch.Tensor]] = []
    were_gone: list[bool] = []

    def launch(batch: Any, draws: Any = ()) -> Any:
        activations = torch.zeros(64)
        computed.append(weakref.ref(activations))
        raise torch.OutOfMemoryError(f"CUDA out of memory beside {activations.shape}")

    monkeypatch.setattr(runner._launcher, "launch", launch)
    free_unused = lambda: were_gone.extend(tensor() is None for tensor in computed)  # noqa: E731
    monkeypatch.setattr(runner._launcher, "free_unused_memory", free_unused)
    params = SamplingParams(max_tokens=1, temperature=0.0)
    core.add(GenerationRequest(request_id=RequestId("a"), prompt_token_ids=[1, 2, 3], params=params))
    failed = core.step()
    assert failed is not None
    assert [type(output.error) for output in failed] == [StepMemoryError]
    assert were_gone == [True]


def test_every_step_that_is_captured_is_so_at_the_start(tiny_folders: dict[str, Path]) -> None:
    core, runner = emulated_core(config_for(tiny_folders["llama3"], **LIMITS), max_captured=64)
    captured = set(runner._launcher._passes)
    assert {num_tokens for num_tokens, _ in captured} == {1, 2, 4, 8, 16, 24, 32, 48, 64}
    play(core, 3)
    assert set(runner._launcher._passes) == captured

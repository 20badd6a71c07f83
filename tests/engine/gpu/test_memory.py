"""What capturing takes is measured and told, whatever was planned for it."""

import logging
from pathlib import Path

import pytest
import torch

from anaphora.checkpoints.config_reader import read_model_config
from anaphora.engine.gpu.memory import capture_steps, device_bytes
from anaphora.engine.gpu.startup import spare_blocks
from anaphora.engine.memory_plan import MemoryDemand
from tests.engine.gpu.emulated import emulated_launcher, emulated_model
from tests.engine.gpu.schedules import LIMITS
from tests.engine.harness import config_for

MIB = 2**20


@pytest.mark.parametrize(
    ("max_captured", "planned", "warns"),
    [(8, 100 * MIB, False), (8, 10 * MIB, True), (0, 0, False)],
    ids=["less than planned", "more than planned", "nothing captured"],
)
def test_what_captured_steps_take_is_measured(
    max_captured: int, planned: int, warns: bool, tiny_folders: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    """On a device whose every captured step takes 6 MiB."""
    caplog.set_level(logging.INFO)
    config = config_for(tiny_folders["llama3"], **LIMITS)
    launcher = emulated_launcher(emulated_model(tiny_folders["llama3"]), config, max_captured, captures=False)
    taken = capture_steps(launcher, planned, lambda: 1000 * MIB - 6 * MIB * launcher.num_captured)
    assert launcher.num_captured == (4 if max_captured else 0)
    assert taken == 6 * MIB * launcher.num_captured
    told = [record.getMessage() for record in caplog.records if record.name == "anaphora.engine.gpu.memory"]
    assert f"captured {launcher.num_captured} steps of up to {max_captured} tokens" in told[0]
    assert any("more than planned" in message for message in told) == warns


def test_memory_that_others_give_back_meanwhile_is_not_counted_as_taken(tiny_folders: dict[str, Path]) -> None:
    config = config_for(tiny_folders["llama3"], **LIMITS)
    launcher = emulated_launcher(emulated_model(tiny_folders["llama3"]), config, 1, captures=False)
    free = iter([5, 900])
    assert capture_steps(launcher, 0, lambda: next(free)) == 0


def test_memory_by_use_is_what_was_measured() -> None:
    demand = MemoryDemand(weights=5, activations=3, graphs=99, context=2)
    assert device_bytes(demand, captured_bytes=7, kv_bytes=40) == {
        "weights": 5,
        "activations": 3,
        "captured_steps": 7,
        "context": 2,
        "kv_cache": 40,
    }


def test_captured_passes_share_their_logits(tiny_folders: dict[str, Path]) -> None:
    config = config_for(tiny_folders["llama3"], **LIMITS)
    launcher = emulated_launcher(emulated_model(tiny_folders["llama3"]), config, 8)
    with torch.inference_mode():
        logits = [launched() for launched in launcher._passes.values()]
    assert len(logits) > 2
    assert {each.untyped_storage().data_ptr() for each in logits} == {logits[0].untyped_storage().data_ptr()}


@pytest.mark.parametrize(
    ("num_blocks", "max_num_seqs", "num_spare"),
    [(128_000, 256, 256), (6400, 256, 100), (10, 256, 8), (10, 4, 4)],
    ids=["one for each request", "a share of the blocks", "at least a few", "no more than requests"],
)
def test_spare_blocks_take_little(
    num_blocks: int, max_num_seqs: int, num_spare: int, tiny_folders: dict[str, Path]
) -> None:
    limits = {"num_gpu_blocks_override": num_blocks, "max_num_seqs": max_num_seqs}
    plan = config_for(tiny_folders["llama3"], **limits).resolve(read_model_config(tiny_folders["llama3"]))
    assert spare_blocks(plan) == num_spare

"""The GPU's runner on a CPU: all of it but the capture itself and the kernels, for any small model."""

from pathlib import Path

import torch

from anaphora.checkpoints.config_reader import read_model_config
from anaphora.engine.config import EngineConfig
from anaphora.engine.engine_core import EngineCore
from anaphora.engine.gpu.buckets import buckets_up_to
from anaphora.engine.gpu.graphs import EmulatedCapture
from anaphora.engine.gpu.launcher import PassLauncher
from anaphora.engine.gpu.runner import GpuRunner
from anaphora.engine.gpu.startup import captured_room
from anaphora.models.device.causal_lm import DeviceLM
from anaphora.models.device.loader import load_device_model
from anaphora.scheduler.scheduler import Scheduler

CPU = torch.device("cpu")


def emulated_model(folder: Path, block_size: int = 16) -> DeviceLM:
    """The model of ``folder`` as a device computes it, in float32."""
    config = read_model_config(folder)
    return load_device_model(
        folder, config, dtype=torch.float32, device=CPU, block_size=block_size, max_logits_rows=256
    )


def emulated_launcher(
    model: DeviceLM, config: EngineConfig, max_captured: int, num_spare_blocks: int = 2, *, captures: bool = True
) -> PassLauncher:
    """Passes of up to ``max_captured`` tokens are padded as for a graph; memory that nobody wrote is poisoned."""
    plan = config.resolve(model.config)
    kv = model.new_kv_cache(plan.kv_capacity.num_blocks + num_spare_blocks, config.block_size)
    for layer in range(model.config.num_layers):
        kv.layer(layer).fill_(torch.nan)
    room = captured_room(plan, config.block_size)
    buckets = buckets_up_to(max_captured) if max_captured else ()
    launcher = PassLauncher(
        model, kv, room=room, buckets=buckets, capture=EmulatedCapture(), num_spare_blocks=num_spare_blocks
    )
    if captures:
        launcher.capture_all()
    return launcher


def emulated_core(
    config: EngineConfig, *, max_captured: int, num_spare_blocks: int = 2
) -> tuple[EngineCore, GpuRunner]:
    """An engine core with the GPU's runner."""
    model = emulated_model(Path(str(config.model)), config.block_size)
    plan = config.resolve(model.config)
    launcher = emulated_launcher(model, config, max_captured, num_spare_blocks)
    runner = GpuRunner(launcher, block_size=config.block_size, max_model_len=plan.max_model_len)
    core = EngineCore(
        Scheduler(plan.scheduler, plan.cache),
        runner,
        vocab_size=model.config.vocab_size,
        eos_token_ids=model.config.eos_token_ids,
        seed=config.seed,
    )
    return core, runner

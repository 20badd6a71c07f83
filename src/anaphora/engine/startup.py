"""From settings to an engine that can step: find the checkpoint, load the weights, size the KV cache."""

import logging
from dataclasses import dataclass
from typing import Protocol

import torch

from anaphora.checkpoints.checkpoint import Checkpoint, find_checkpoint
from anaphora.cores import num_usable_cores
from anaphora.engine.config import EngineConfig
from anaphora.engine.engine_core import EngineCore
from anaphora.engine.gpu.device import choose_device
from anaphora.engine.gpu.startup import load_on_gpu
from anaphora.engine.model_runner import ModelRunner, Runner
from anaphora.engine.plan import EnginePlan
from anaphora.engine.thread_placement import placement_of_this_thread
from anaphora.errors import ConfigError
from anaphora.models.loader import load_model
from anaphora.scheduler.scheduler import Scheduler
from anaphora.tokenizer.tokenizer import Tokenizer

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedEngine:
    """An engine core and what is known about it."""

    core: EngineCore
    tokenizer: Tokenizer
    plan: EnginePlan
    model_name: str
    vocab_size: int


class LoadEngine(Protocol):
    """The seam at which tests put a scripted model."""

    def __call__(self, config: EngineConfig, checkpoint: Checkpoint | None) -> LoadedEngine:
        """Load what ``config`` names, or ``checkpoint`` if it was found already."""
        ...


def load_engine(config: EngineConfig, checkpoint: Checkpoint | None = None) -> LoadedEngine:
    """Load the model in the calling thread, which should be the one that will run it.

    Raises:
        CheckpointError: the model cannot be found, read or understood.
        ConfigError: the settings do not fit the model.
    """
    checkpoint = checkpoint or find_checkpoint(config.model, needs_weights=config.load_format != "dummy")
    tokenizer = Tokenizer.from_folder(checkpoint.path)
    device = choose_device(config.device)
    runner: Runner
    runner, plan = (
        load_on_gpu(config, checkpoint, device) if device.type == "cuda" else _load_on_cpu(config, checkpoint)
    )
    vocab_size = checkpoint.config.vocab_size
    core = EngineCore(
        Scheduler(plan.scheduler, plan.cache),
        runner,
        vocab_size=vocab_size,
        # a tokenizer may know tokens for which the model has no logits
        eos_token_ids=tuple(token_id for token_id in tokenizer.eos_token_ids if token_id < vocab_size),
        seed=config.seed,
    )
    logger.info(
        "%s in %s on %s, up to %d tokens a request; KV cache: %s",
        checkpoint.name,
        plan.dtype,
        "the GPU" if device.type == "cuda" else f"{torch.get_num_threads()} threads",
        plan.max_model_len,
        plan.kv_capacity,
    )
    return LoadedEngine(core, tokenizer, plan, checkpoint.name, vocab_size)


def _load_on_cpu(config: EngineConfig, checkpoint: Checkpoint) -> tuple[ModelRunner, EnginePlan]:
    torch.set_num_threads(config.num_threads or num_usable_cores())
    plan = config.resolve(checkpoint.config)
    dtype: torch.dtype = getattr(torch, plan.dtype)
    model = load_model(checkpoint.path, checkpoint.config, dtype=dtype, load_format=config.load_format)
    try:
        kv = model.new_kv_cache(plan.kv_capacity.num_blocks, config.block_size)
    except RuntimeError:  # torch's own words are about its allocator
        raise ConfigError(
            f"there is no memory for a KV cache of {plan.kv_capacity}: lower kv_cache_memory_bytes or "
            "num_gpu_blocks_override"
        ) from None
    runner = ModelRunner(model, kv, placement=placement_of_this_thread(torch.get_num_threads()))
    runner.warm_up()
    return runner, plan

"""From settings to a runner on a device: load, measure, make room for keys and values, capture."""

import importlib.util
import logging
import time
from dataclasses import replace

import torch

from anaphora.checkpoints.checkpoint import Checkpoint
from anaphora.cores import num_usable_cores
from anaphora.engine.config import EngineConfig
from anaphora.engine.gpu.buckets import TOKEN_BUCKETS, buckets_up_to
from anaphora.engine.gpu.captured import captured_steps
from anaphora.engine.gpu.graphs import CudaCapture, compute_only
from anaphora.engine.gpu.launcher import PassLauncher
from anaphora.engine.gpu.memory import capture_steps, device_bytes, free_bytes, measure_demand
from anaphora.engine.gpu.runner import GpuRunner
from anaphora.engine.gpu.step_inputs import Room
from anaphora.engine.memory_plan import MAX_LOGITS_ROWS, MemoryPlan, gib, graph_bytes
from anaphora.engine.plan import ELEMENT_BYTES, EnginePlan
from anaphora.errors import ConfigError
from anaphora.models.attention.tasks import TASK_WORDS
from anaphora.models.device.causal_lm import DeviceLM
from anaphora.models.device.loader import load_device_model

MAX_COMPILERS = 8
"""Threads that compile kernels: there are some twenty of those, and the slowest takes over a second."""
MIN_SPARE_BLOCKS = 8
MAX_SPARE_SHARE = 64
"""Spare blocks take at most one for so many of the KV cache, or ``MIN_SPARE_BLOCKS``."""
logger = logging.getLogger(__name__)


def load_on_gpu(config: EngineConfig, checkpoint: Checkpoint, device: torch.device) -> tuple[GpuRunner, EnginePlan]:
    """A runner for ``checkpoint`` on a CUDA device, and the sizes that its memory allows.

    Raises:
        CheckpointError: the weights cannot be read.
        ConfigError: the model does not fit, or the settings do not fit the model.
    """
    torch.cuda.set_device(device)
    model = _load(config, checkpoint, device)
    _compile(config, model)
    memory = _measure(config, model, device)
    plan = config.resolve(checkpoint.config, memory)
    _log(memory, plan)
    num_spare_blocks = spare_blocks(plan)
    try:
        kv = model.new_kv_cache(plan.kv_capacity.num_blocks + num_spare_blocks, config.block_size)
    except torch.OutOfMemoryError:
        raise ConfigError(
            f"the GPU has no room for a KV cache of {plan.kv_capacity}: lower num_gpu_blocks_override or "
            "kv_cache_memory_bytes, or leave them out"
        ) from None
    buckets = captured_buckets(config, plan.scheduler.max_num_batched_tokens)
    launcher = PassLauncher(
        model,
        kv,
        room=captured_room(plan, config.block_size),
        buckets=buckets,
        capture=CudaCapture(device),
        num_spare_blocks=num_spare_blocks,
    )
    model.attention.warm_up(plan.scheduler.max_num_batched_tokens, plan.max_model_len)
    taken = capture_steps(launcher, memory.demand.graphs, lambda: free_bytes(device))
    runner = GpuRunner(launcher, block_size=config.block_size, max_model_len=plan.max_model_len)
    return runner, replace(plan, device_bytes=device_bytes(memory.demand, taken, kv.num_bytes))


def captured_buckets(config: EngineConfig, max_num_tokens: int) -> tuple[int, ...]:
    """Of an engine whose steps have at most so many tokens."""
    return () if config.enforce_eager else buckets_up_to(min(max_num_tokens, TOKEN_BUCKETS[-1]))


def spare_blocks(plan: EnginePlan) -> int:
    """How many, beside those that the KV cache is said to have: so many requests may begin a block in a step that runs
    ahead. Requests of equal length that came together all do in the same step."""
    return min(plan.scheduler.max_num_seqs, max(MIN_SPARE_BLOCKS, plan.kv_capacity.num_blocks // MAX_SPARE_SHARE))


def captured_room(plan: EnginePlan, block_size: int) -> Room:
    """Room for every small step that the plan allows, but for odd ones with very many shared runs or splits: steps of
    few tokens are split most."""
    num_tokens = min(plan.scheduler.max_num_batched_tokens, TOKEN_BUCKETS[-1])
    num_requests = min(plan.scheduler.max_num_seqs, num_tokens)
    return Room(
        num_tokens=num_tokens,
        num_rows=MAX_LOGITS_ROWS,
        num_listed=4 * num_tokens,
        num_work=2048 * TASK_WORDS + num_requests * -(-plan.max_model_len // block_size),
        num_parts=32 * min(num_tokens, MAX_LOGITS_ROWS),
    )


def _load(config: EngineConfig, checkpoint: Checkpoint, device: torch.device) -> DeviceLM:
    started_s = time.perf_counter()
    dtype: torch.dtype = getattr(torch, config.dtype_on(checkpoint.config, is_gpu=True))
    try:
        model = load_device_model(
            checkpoint.path,
            checkpoint.config,
            dtype=dtype,
            device=device,
            block_size=config.block_size,
            max_logits_rows=MAX_LOGITS_ROWS,
            load_format=config.load_format,
            batch_invariant=config.deterministic,
        )
    except torch.OutOfMemoryError:
        total = torch.cuda.get_device_properties(device).total_memory
        planned = config.plan_memory(checkpoint.config, total)
        raise ConfigError(
            f"the model does not fit: its weights take {gib(planned.demand.weights)}, and the GPU has {gib(total)}, of "
            f"which {gib(torch.cuda.mem_get_info(device)[0])} are free"
        ) from None
    torch.cuda.synchronize(device)
    logger.info("weights on the GPU in %.1f s", time.perf_counter() - started_s)
    return model


def _compile(config: EngineConfig, model: DeviceLM) -> None:
    """Compile the kernels of all small steps side by side, as passes over a few layers need them. Those that were
    compiled before are found on disk."""
    if model.device.type != "cuda" or importlib.util.find_spec("triton") is None:
        return
    from anaphora.models.kernels.launch import compiling

    started_s = time.perf_counter()
    few = model.first_layers(2)
    total = torch.cuda.get_device_properties(model.device).total_memory
    buckets = captured_buckets(replace(config, enforce_eager=False), config.token_budget_on(model.config, total))
    launcher = PassLauncher(
        few,
        few.new_kv_cache(1, config.block_size),
        room=Room(buckets[-1], MAX_LOGITS_ROWS, num_listed=1, num_work=1, num_parts=1),
        buckets=buckets,
        capture=compute_only,
        num_spare_blocks=1,
    )
    with compiling(min(MAX_COMPILERS, num_usable_cores())):
        launcher.capture_all()
        few.attention.warm_up(0, 0)
    torch.cuda.synchronize(model.device)
    logger.info("kernels ready in %.1f s", time.perf_counter() - started_s)


def _measure(config: EngineConfig, model: DeviceLM, device: torch.device) -> MemoryPlan:
    """Divide the GPU's memory by what a pass over the largest step takes."""
    total = torch.cuda.get_device_properties(device).total_memory
    num_tokens = config.token_budget_on(model.config, total)
    element_bytes = ELEMENT_BYTES[config.dtype_on(model.config, is_gpu=True)]
    num_graphs = len(captured_steps(model.attention.step_configs, captured_buckets(config, num_tokens)))
    try:
        demand = measure_demand(
            model,
            device,
            num_tokens=num_tokens,
            max_num_seqs=config.max_num_seqs,
            block_size=config.block_size,
            graphs=graph_bytes(model.config, element_bytes, num_graphs),
        )
    except torch.OutOfMemoryError:
        raise ConfigError(
            f"the model fits the GPU, but a step of {num_tokens} tokens does not: lower max_num_batched_tokens"
        ) from None
    return config.plan_memory(model.config, total, demand)


def _log(memory: MemoryPlan, plan: EnginePlan) -> None:
    demand = memory.demand
    logger.info(
        "GPU memory %s, of which %g may be used: weights %s, activations %s, graphs %s, context %s; KV cache: %s",
        gib(memory.gpu_bytes),
        memory.utilization,
        gib(demand.weights),
        gib(demand.activations),
        gib(demand.graphs),
        gib(demand.context),
        plan.kv_capacity,
    )

"""Measures what a loaded model takes of a GPU: by a pass over the largest step, and by what capturing steps leaves."""

import logging
import time
from collections.abc import Callable

import numpy as np
import torch

from anaphora.engine.gpu.flat_batch import FlatBatch
from anaphora.engine.gpu.launcher import PassLauncher, compute
from anaphora.engine.memory_plan import MAX_LOGITS_ROWS, MemoryDemand, gib
from anaphora.models.batch import SequenceSpan
from anaphora.models.device.causal_lm import DeviceLM

logger = logging.getLogger(__name__)


def free_bytes(device: torch.device) -> int:
    """Of a CUDA device, without what torch keeps for later."""
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info(device)[0]


def capture_steps(launcher: PassLauncher, planned_bytes: int, free_bytes: Callable[[], int]) -> int:
    """Capture every small step. Returns how many bytes are not free any more, and says so in the log.

    They are the steps' own, their common activations, and the kernels that were loaded for them. What another process
    takes or gives back meanwhile counts too. The KV cache was sized by ``planned_bytes``, which are a guess.
    """
    started_s, before = time.perf_counter(), free_bytes()
    launcher.capture_all()
    taken = max(0, before - free_bytes())
    logger.info(
        "captured %d steps of up to %d tokens in %.1f s: they took %s, %s were planned",
        launcher.num_captured,
        launcher.max_num_tokens,
        time.perf_counter() - started_s,
        gib(taken),
        gib(planned_bytes),
    )
    if taken > planned_bytes:
        logger.warning(
            "captured steps took %s more than planned: if steps run out of memory, lower gpu_memory_utilization",
            gib(taken - planned_bytes),
        )
    return taken


def largest_step(num_tokens: int, num_rows: int, block_size: int) -> FlatBatch:
    """One request of ``num_tokens`` tokens in a single block over and over, nothing of it stored."""
    nothing = np.zeros(num_tokens, dtype=np.int32)
    table = np.zeros(-(-num_tokens // block_size), dtype=np.int32)
    return FlatBatch(
        token_ids=nothing,
        positions=np.arange(num_tokens, dtype=np.int32),
        slots=nothing - 1,
        logits_rows=np.zeros(num_rows, dtype=np.int32),
        spans=(SequenceSpan(0, num_tokens, num_tokens, table),),  # type: ignore[arg-type]  # as arrays are faster
    )


@torch.inference_mode()
def measure_demand(
    model: DeviceLM, device: torch.device, *, num_tokens: int, max_num_seqs: int, block_size: int, graphs: int
) -> MemoryDemand:
    """What is not keys and values, in bytes. ``graphs``: what captured steps will take, which is estimated.

    What other processes hold of the GPU counts as context: it is not there for keys and values either.
    """
    weights = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    batch = largest_step(num_tokens, min(max_num_seqs, num_tokens, MAX_LOGITS_ROWS), block_size)
    sampled = torch.zeros(MAX_LOGITS_ROWS, dtype=torch.int32, device=device)
    logits = compute(model, model.new_kv_cache(1, block_size), batch, model.attention.plan_spans(batch.spans), sampled)
    model.operators.argmax(logits, sampled[: len(logits)])
    del logits
    torch.cuda.synchronize(device)
    peak = torch.cuda.max_memory_allocated(device)
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(device)
    context = total - free - torch.cuda.memory_reserved(device)
    return MemoryDemand(weights=weights, activations=peak - weights, graphs=graphs, context=context)


def device_bytes(demand: MemoryDemand, captured_bytes: int, kv_bytes: int) -> dict[str, int]:
    """What is held of a GPU by use, all of it measured."""
    return {
        "weights": demand.weights,
        "activations": demand.activations,
        "captured_steps": captured_bytes,
        "context": demand.context,
        "kv_cache": kv_bytes,
    }

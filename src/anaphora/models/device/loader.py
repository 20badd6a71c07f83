"""From a checkpoint folder to a model on a device."""

import importlib.util
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import torch

from anaphora.checkpoints.model_config import ModelConfig
from anaphora.errors import ConfigError
from anaphora.models.attention.prefixes import SharingCost
from anaphora.models.device.attention import DeviceAttention, PlainAttention
from anaphora.models.device.causal_lm import DeviceLM
from anaphora.models.device.operators import Operators, PlainOperators
from anaphora.models.linear import Linear, PlainLinear
from anaphora.models.loader import read_weights
from anaphora.models.weights import DummySource, SafetensorsSource, TensorSource

logger = logging.getLogger(__name__)


def load_device_model(
    folder: Path,
    config: ModelConfig,
    *,
    dtype: torch.dtype,
    device: torch.device,
    block_size: int,
    max_logits_rows: int,
    load_format: Literal["auto", "dummy"] = "auto",
    batch_invariant: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> DeviceLM:
    """Load the model of ``folder`` onto ``device``, computing in ``dtype``: tensor by tensor, straight from the files.

    On a CUDA device with the Triton kernels; on others, and without Triton, with plain operators. ``progress(done,
    total)`` counts tensors.

    Raises:
        CheckpointError: a tensor is missing, left over or of the wrong shape, or a file is damaged.
        torch.OutOfMemoryError: the weights are more than the device holds.
    """
    source: TensorSource = DummySource(device) if load_format == "dummy" else SafetensorsSource(folder, progress)
    linear = _fixed_linear() if batch_invariant else _linear(dtype, device)
    weights = read_weights(source, config, linear, dtype, device)
    if device.type == "cuda" and importlib.util.find_spec("triton") is not None:
        attention, operators = _with_triton(config, dtype, device, block_size, max_logits_rows, batch_invariant)
    else:
        if device.type == "cuda":
            logger.warning("triton is not installed: attention and small operators run in plain torch, slowly")
        attention, operators = plain_backend(config, block_size)
    return DeviceLM(config, weights, attention, operators, dtype, device)


def _fixed_linear() -> type[Linear]:
    """Products that do not depend on the number of rows.

    Raises:
        ConfigError: they need Triton, and it is not installed.
    """
    if importlib.util.find_spec("triton") is None:
        raise ConfigError("deterministic needs triton, which is not installed: install it, or leave deterministic out")
    from anaphora.models.kernels.linear import FixedLinear

    return FixedLinear


def _linear(dtype: torch.dtype, device: torch.device) -> type[Linear]:
    """Products that are fast with few rows, where that was measured."""
    has_triton = device.type == "cuda" and importlib.util.find_spec("triton") is not None
    if dtype is torch.float32 or not has_triton or torch.cuda.get_device_capability(device) < (9, 0):
        return PlainLinear
    from anaphora.models.kernels.skinny import SkinnyLinear

    return SkinnyLinear


def plain_backend(config: ModelConfig, block_size: int) -> tuple[DeviceAttention, Operators]:
    """The definitions, for devices without kernels of their own."""
    sharing = SharingCost(per_run=block_size, per_query=0, max_query_len=256)
    return PlainAttention(config.num_heads, config.num_kv_heads, block_size, sharing), PlainOperators()


def _with_triton(
    config: ModelConfig,
    dtype: torch.dtype,
    device: torch.device,
    block_size: int,
    max_logits_rows: int,
    batch_invariant: bool,
) -> tuple[DeviceAttention, Operators]:
    from anaphora.models.attention.cuda import CudaAttention
    from anaphora.models.device.triton_backend import TritonAttention, TritonOperators

    attention = CudaAttention(
        num_heads=config.num_heads,
        num_kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        block_size=block_size,
        device=device,
        num_sms=torch.cuda.get_device_properties(device).multi_processor_count,
        dtype=dtype,
        batch_invariant=batch_invariant,
    )
    adapted = TritonAttention(
        attention, num_heads=config.num_heads, head_dim=config.head_dim, block_size=block_size, device=device
    )
    return adapted, TritonOperators(max_logits_rows, config.vocab_size, device)

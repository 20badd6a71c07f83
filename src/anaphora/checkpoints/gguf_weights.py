"""The tensors of a GGUF file under the names, in the order and in the row order that a safetensors folder has.

GGUF files of the Llama architecture have the rows of query and key permuted within each head (pairs of a rotation lie
side by side there, half a head apart here); the other architectures' files do not.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from gguf import quants

from anaphora.checkpoints.gguf_config import ROPE_FACTORS
from anaphora.checkpoints.gguf_file import GgufFile, GgufTensor
from anaphora.checkpoints.model_config import ModelConfig
from anaphora.checkpoints.progress import Progress
from anaphora.checkpoints.safetensors_writer import Float32Array
from anaphora.errors import CheckpointError

_PERMUTED_ARCHITECTURES = ("llama", "mistral")
_CHUNK_ELEMENTS = 1 << 20
"""Values made at a time: 4 MiB of float32 fit the processor's caches, and memory stays small."""


@dataclass(frozen=True, slots=True)
class _Planned:
    """One tensor to write: where it comes from, and over how many heads its rows were permuted (0: they were not)."""

    source: str
    shape: tuple[int, ...]
    num_permuted_heads: int = 0


class GgufWeights:
    """Every tensor that ``config`` needs, found in ``file`` and of the right shape.

    Raises:
        CheckpointError: a tensor is missing, left over, of another shape, or in a quantisation that cannot be undone.
    """

    def __init__(self, file: GgufFile, config: ModelConfig) -> None:
        self._file = file
        if config.num_layers > len(file.tensors):
            raise CheckpointError(f"{file.path}: block_count = {config.num_layers}, but there are fewer tensors")
        self._plan = _plan(config, permuted=file.metadata["general.architecture"] in _PERMUTED_ARCHITECTURES)
        left_over = sorted(file.tensors.keys() - {p.source for p in self._plan.values()} - {ROPE_FACTORS})
        if left_over:
            raise CheckpointError(f"{file.path}: tensor {left_over[0]} is not understood for this architecture")
        for planned in self._plan.values():
            self._check(planned)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each tensor by its name in a safetensors folder."""
        return {name: planned.shape for name, planned in self._plan.items()}

    def chunks(self, progress: Progress) -> Iterator[Float32Array]:
        """The values of all tensors in the order of ``shapes``, a few rows at a time."""
        total = sum(4 * math.prod(shape) for shape in self.shapes.values())
        done = 0
        for planned in self._plan.values():
            for chunk in self._tensor_chunks(planned):
                yield chunk
                done += chunk.nbytes
                progress(f"converting {self._file.path.name}", done, total)

    def _check(self, planned: _Planned) -> None:
        tensor = self._file.tensors.get(planned.source)
        if tensor is None:
            raise CheckpointError(f"{self._file.path}: tensor {planned.source} is missing")
        if tensor.shape != planned.shape:
            raise CheckpointError(
                f"{self._file.path}: tensor {tensor.name} has the shape {tensor.shape}, not {planned.shape}"
            )
        try:
            _dequantized(np.zeros((1, tensor.row_bytes), np.uint8), tensor)
        except NotImplementedError:
            raise CheckpointError(
                f"{self._file.path}: the quantisation {tensor.kind.name} of {tensor.name} is not supported"
            ) from None

    def _tensor_chunks(self, planned: _Planned) -> Iterator[Float32Array]:
        tensor = self._file.tensors[planned.source]
        heads = planned.num_permuted_heads
        rows = None
        if heads:
            source = np.arange(tensor.shape[0]).reshape(heads, -1, 2)
            rows = source.swapaxes(1, 2).reshape(-1)
            if tensor.num_rows == 1:  # a bias: the values themselves are what is permuted
                yield _dequantized(self._file.raw_rows(tensor, slice(None)), tensor).reshape(-1)[rows]
                return
        step = max(1, _CHUNK_ELEMENTS // tensor.shape[-1])
        for start in range(0, tensor.num_rows, step):
            part = slice(start, start + step)
            yield _dequantized(self._file.raw_rows(tensor, part if rows is None else rows[part]), tensor)


def _dequantized(raw: np.ndarray[Any, np.dtype[np.uint8]], tensor: GgufTensor) -> Float32Array:
    values: Float32Array = quants.dequantize(raw, tensor.kind)
    return values


def _plan(config: ModelConfig, *, permuted: bool) -> dict[str, _Planned]:
    """Name in a safetensors folder → where it comes from."""
    vocabulary = (config.vocab_size, config.hidden_size)
    plan = {"model.embed_tokens.weight": _Planned("token_embd.weight", vocabulary)}
    for index in range(config.num_layers):
        for name, planned in _layer_plan(config, permuted).items():
            source = _Planned(f"blk.{index}.{planned.source}", planned.shape, planned.num_permuted_heads)
            plan[f"model.layers.{index}.{name}"] = source
    plan["model.norm.weight"] = _Planned("output_norm.weight", (config.hidden_size,))
    if not config.tie_word_embeddings:
        plan["lm_head.weight"] = _Planned("output.weight", vocabulary)
    return plan


def _layer_plan(config: ModelConfig, permuted: bool) -> dict[str, _Planned]:
    hidden, inner = config.hidden_size, config.intermediate_size
    query, kv = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    query_heads, key_heads = (config.num_heads, config.num_kv_heads) if permuted else (0, 0)
    projections = (
        ("self_attn.q_proj", "attn_q", (query, hidden), config.qkv_bias, query_heads),
        ("self_attn.k_proj", "attn_k", (kv, hidden), config.qkv_bias, key_heads),
        ("self_attn.v_proj", "attn_v", (kv, hidden), config.qkv_bias, 0),
        ("self_attn.o_proj", "attn_output", (hidden, query), config.output_bias, 0),
        ("mlp.gate_proj", "ffn_gate", (inner, hidden), config.mlp_bias, 0),
        ("mlp.up_proj", "ffn_up", (inner, hidden), config.mlp_bias, 0),
        ("mlp.down_proj", "ffn_down", (hidden, inner), config.mlp_bias, 0),
    )
    plan = {
        "input_layernorm.weight": _Planned("attn_norm.weight", (hidden,)),
        "post_attention_layernorm.weight": _Planned("ffn_norm.weight", (hidden,)),
    }
    for name, source, shape, has_bias, heads in projections:
        plan[f"{name}.weight"] = _Planned(f"{source}.weight", shape, heads)
        if has_bias:
            plan[f"{name}.bias"] = _Planned(f"{source}.bias", shape[:1], heads)
    if config.qk_norm:
        for part in ("q", "k"):
            plan[f"self_attn.{part}_norm.weight"] = _Planned(f"attn_{part}_norm.weight", (config.head_dim,))
    return plan

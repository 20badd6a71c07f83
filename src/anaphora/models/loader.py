"""From a checkpoint folder to a model: tensor names of the Llama family, fused as the model computes them."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import torch

from anaphora.checkpoints.model_config import ModelConfig
from anaphora.models.attention.cpu import CpuAttention
from anaphora.models.attention.partial import fastest_partial
from anaphora.models.causal_lm import CausalLM, LayerWeights, ModelWeights
from anaphora.models.huge_pages import collapse_resident_memory
from anaphora.models.linear import Linear, fastest_linear
from anaphora.models.rotary import interleave_heads
from anaphora.models.weights import DummySource, SafetensorsSource, TensorSource

EMBEDDING = "model.embed_tokens"


def load_model(
    folder: Path,
    config: ModelConfig,
    *,
    dtype: torch.dtype = torch.float32,
    load_format: Literal["auto", "dummy"] = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> CausalLM:
    """Load the model of ``folder`` for a CPU, computing in ``dtype``.

    ``load_format="dummy"`` makes seeded random weights and reads no file. ``progress(done, total)`` counts tensors.

    Raises:
        CheckpointError: a tensor is missing, left over or of the wrong shape, or a file is damaged.
    """
    source: TensorSource = DummySource() if load_format == "dummy" else SafetensorsSource(folder, progress)
    weights = read_weights(source, config, fastest_linear(dtype), dtype)
    attention = CpuAttention(config.num_heads, config.num_kv_heads, fastest_partial(dtype))
    collapse_resident_memory()  # before there are KV tensors, which take memory as they fill
    return CausalLM(config, weights, attention, dtype)


def read_weights(
    source: TensorSource,
    config: ModelConfig,
    linear: type[Linear],
    dtype: torch.dtype,
    device: torch.device | None = None,
) -> ModelWeights:
    """Take all tensors from ``source`` and close it; products become ``linear`` ones.

    ``device``: where all of them go, one by one, without a second copy in host memory. ``None``: they stay on the CPU,
    and the embedding is read from its file as it is needed.
    """
    weights = _Fuser(config, source, linear, dtype, device).model()
    source.finish(lambda name: _is_ignored(name, config))
    return weights


def _is_ignored(name: str, config: ModelConfig) -> bool:
    """Rotary frequencies follow from the configuration; a tied head repeats the embedding."""
    return name.endswith("rotary_emb.inv_freq") or (config.tie_word_embeddings and name == "lm_head.weight")


class _Fuser:
    """Takes tensors from a source and joins those that are multiplied together."""

    def __init__(
        self,
        config: ModelConfig,
        source: TensorSource,
        linear: type[Linear],
        dtype: torch.dtype,
        device: torch.device | None,
    ) -> None:
        self._config = config
        self._source = source
        self._linear = linear
        self._dtype = dtype
        self._device = device

    def model(self) -> ModelWeights:
        config = self._config
        shape = (config.vocab_size, config.hidden_size)
        layers = tuple(self._layer(f"model.layers.{index}.") for index in range(config.num_layers))
        final_norm = self._tensor("model.norm.weight", config.hidden_size)
        if self._device is not None and config.tie_word_embeddings:  # one table on the device serves both
            embedding = self._tensor(EMBEDDING + ".weight", *shape)
            return ModelWeights(embedding, layers, final_norm, self._linear(embedding, None))
        head = self._fused([(EMBEDDING if config.tie_word_embeddings else "lm_head", shape[0])], shape[1], False)
        if self._device is None:
            embedding = self._source.table(EMBEDDING + ".weight", shape)
        else:
            embedding = self._tensor(EMBEDDING + ".weight", *shape)
        return ModelWeights(embedding, layers, final_norm, head)

    def _layer(self, prefix: str) -> LayerWeights:
        config, attention = self._config, prefix + "self_attn."
        hidden, inner = config.hidden_size, config.intermediate_size
        query_size, kv_size = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        qkv = [(attention + "q_proj", query_size), (attention + "k_proj", kv_size), (attention + "v_proj", kv_size)]
        return LayerWeights(
            attention_norm=self._tensor(prefix + "input_layernorm.weight", hidden),
            qkv=self._fused(qkv, hidden, config.qkv_bias, num_rotary=2),
            query_norm=self._head_norm(attention + "q_norm.weight"),
            key_norm=self._head_norm(attention + "k_norm.weight"),
            output=self._fused([(attention + "o_proj", hidden)], query_size, config.output_bias),
            mlp_norm=self._tensor(prefix + "post_attention_layernorm.weight", hidden),
            gate_up=self._fused(
                [(prefix + "mlp.gate_proj", inner), (prefix + "mlp.up_proj", inner)], hidden, config.mlp_bias
            ),
            down=self._fused([(prefix + "mlp.down_proj", hidden)], inner, config.mlp_bias),
        )

    def _fused(self, parts: list[tuple[str, int]], width: int, has_bias: bool, num_rotary: int = 0) -> Linear:
        """Projections stacked by rows; the first ``num_rotary`` ones make heads that are turned by position."""
        weight = self._stacked([(name + ".weight", (rows, width)) for name, rows in parts], num_rotary)
        bias = self._stacked([(name + ".bias", (rows,)) for name, rows in parts], num_rotary) if has_bias else None
        return self._linear(weight, bias)

    def _stacked(self, parts: list[tuple[str, tuple[int, ...]]], num_rotary: int) -> torch.Tensor:
        num_rows = sum(shape[0] for _, shape in parts)
        stacked = torch.empty((num_rows, *parts[0][1][1:]), dtype=self._dtype, device=self._device)
        for index, (target, (name, shape)) in enumerate(zip(_rows(stacked, parts), parts, strict=True)):
            tensor = self._source.take(name, shape)
            tensor = tensor.to(self._device or "cpu")  # before it is reordered, so that the host makes no copy
            target.copy_(interleave_heads(tensor, self._config.head_dim) if index < num_rotary else tensor)
        return stacked

    def _head_norm(self, name: str) -> torch.Tensor | None:
        if not self._config.qk_norm:
            return None
        return interleave_heads(self._tensor(name, self._config.head_dim), self._config.head_dim)

    def _tensor(self, name: str, *shape: int) -> torch.Tensor:
        # a copy of its own, so that the mapped file can be closed
        return self._source.take(name, shape).to(device=self._device, dtype=self._dtype, copy=True)


def _rows(stacked: torch.Tensor, parts: list[tuple[str, tuple[int, ...]]]) -> tuple[torch.Tensor, ...]:
    return torch.split(stacked, [shape[0] for _, shape in parts])

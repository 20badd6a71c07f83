"""The Llama family in one file: Llama, SmolLM2, Mistral, Qwen2/2.5, Qwen3. Sizes and switches come from ModelConfig."""

from dataclasses import dataclass

import torch
from torch.nn import functional

from anaphora.checkpoints.model_config import ModelConfig
from anaphora.models.attention.base import Attention
from anaphora.models.batch import ForwardBatch
from anaphora.models.kv_cache import PagedKVCache
from anaphora.models.linear import Linear
from anaphora.models.rotary import Rotary, rotate


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One decoder layer. ``query_norm`` and ``key_norm`` only with ``config.qk_norm``."""

    attention_norm: torch.Tensor
    qkv: Linear
    """Rows: all query heads, all key heads, all value heads; query and key heads in rotary order."""
    query_norm: torch.Tensor | None
    key_norm: torch.Tensor | None
    output: Linear
    mlp_norm: torch.Tensor
    gate_up: Linear
    down: Linear


@dataclass(frozen=True, slots=True)
class ModelWeights:
    """Everything a checkpoint holds, fused as the model computes it."""

    embedding: torch.Tensor
    """``[vocab_size, hidden_size]``, in whatever dtype it is stored: few rows are read in a pass."""
    layers: tuple[LayerWeights, ...]
    final_norm: torch.Tensor
    head: Linear


class CausalLM:
    """A decoder with a language-model head over paged keys and values."""

    def __init__(self, config: ModelConfig, weights: ModelWeights, attention: Attention, dtype: torch.dtype) -> None:
        self.config = config
        self.dtype = dtype
        self._weights = weights
        self._attention = attention
        self._rotary = Rotary(config)

    def new_kv_cache(self, num_blocks: int, block_size: int) -> PagedKVCache:
        """KV tensors for ``num_blocks`` blocks of ``block_size`` tokens; not cleared, so untouched memory is free."""
        return PagedKVCache(
            num_layers=self.config.num_layers,
            num_kv_heads=self.config.num_kv_heads,
            head_dim=self.config.head_dim,
            num_blocks=num_blocks,
            block_size=block_size,
            dtype=self.dtype,
        )

    @torch.inference_mode()
    def forward(self, batch: ForwardBatch, kv: PagedKVCache) -> torch.Tensor:
        """Compute the batch, writing its keys and values into ``kv``.

        Returns ``[R, vocab_size]`` float32: the logits after each of ``batch.logits_rows``.
        """
        plan = self._attention.plan(batch, kv)
        rotations = self._rotary.rotations(batch.positions)
        hidden = functional.embedding(batch.token_ids, self._weights.embedding).to(self.dtype)
        last = self.config.num_layers - 1
        for index, layer in enumerate(self._weights.layers):
            mixed = self._attention.run(plan, index, self._project(layer, hidden, rotations), kv)
            if index == last:  # from here on nobody needs the other tokens
                hidden, mixed = hidden[batch.logits_rows], mixed[batch.logits_rows]
                if not len(hidden):
                    return torch.empty(0, self.config.vocab_size)
            hidden = self._mlp(layer, layer.output.add_to(hidden, mixed))
        return self._weights.head(self._norm(hidden, self._weights.final_norm)).float()

    def _project(self, layer: LayerWeights, hidden: torch.Tensor, rotations: torch.Tensor) -> torch.Tensor:
        """``[T, num_heads + 2 * num_kv_heads, head_dim]``: queries and keys turned by position, then values."""
        num_heads, num_kv_heads = self.config.num_heads, self.config.num_kv_heads
        heads = layer.qkv(self._norm(hidden, layer.attention_norm)).view(len(hidden), -1, self.config.head_dim)
        if layer.query_norm is not None and layer.key_norm is not None:
            queries, keys, _ = torch.split(heads, [num_heads, num_kv_heads, num_kv_heads], dim=1)
            queries.copy_(self._norm(queries, layer.query_norm))
            keys.copy_(self._norm(keys, layer.key_norm))
        rotate(heads[:, : num_heads + num_kv_heads], rotations)
        return heads

    def _mlp(self, layer: LayerWeights, hidden: torch.Tensor) -> torch.Tensor:
        gate, up = layer.gate_up(self._norm(hidden, layer.mlp_norm)).chunk(2, dim=-1)
        return layer.down.add_to(hidden, functional.silu(gate, inplace=True).mul_(up))

    def _norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, weight.shape, weight, self.config.rms_norm_eps)

"""A pass of the Llama family over tensors in fixed places: no shape depends on values, nothing waits for the device."""

from dataclasses import replace
from typing import Any

import torch

from anaphora.checkpoints.model_config import ModelConfig
from anaphora.models.causal_lm import LayerWeights, ModelWeights
from anaphora.models.device.attention import DeviceAttention
from anaphora.models.device.batch import DeviceBatch
from anaphora.models.device.operators import Norms, Operators
from anaphora.models.kv_cache import PagedKVCache
from anaphora.models.linear import Linear
from anaphora.models.rotary import Rotary


class DeviceLM:
    """The model of :class:`anaphora.models.causal_lm.CausalLM`, with the same fused weights, for a device."""

    def __init__(
        self,
        config: ModelConfig,
        weights: ModelWeights,
        attention: DeviceAttention,
        operators: Operators,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.config = config
        self.dtype = dtype
        self.device = device
        self.attention = attention
        self.operators = operators
        self._weights = weights
        rotary = Rotary(config)
        self._frequencies, self._length = rotary.frequencies.to(device), rotary.length

    def first_layers(self, num_layers: int) -> "DeviceLM":
        """A model of only so many of the layers, with the same weights: it needs every kernel that this one needs."""
        weights = replace(self._weights, layers=self._weights.layers[:num_layers])
        config = replace(self.config, num_layers=len(weights.layers))
        return DeviceLM(config, weights, self.attention, self.operators, self.dtype, self.device)

    def new_kv_cache(self, num_blocks: int, block_size: int) -> PagedKVCache:
        """KV tensors on the device for ``num_blocks`` blocks of ``block_size`` tokens; not cleared."""
        return PagedKVCache(
            num_layers=self.config.num_layers,
            num_kv_heads=self.config.num_kv_heads,
            head_dim=self.config.head_dim,
            num_blocks=num_blocks,
            block_size=block_size,
            dtype=self.dtype,
            device=self.device,
        )

    def forward(self, batch: DeviceBatch, kv: PagedKVCache, logits: torch.Tensor | None = None) -> torch.Tensor:
        """Compute the batch, writing its keys and values into ``kv``. Returns ``[R, vocab_size]`` logits, which are
        written to ``logits`` if that is given.

        Within the pass every layer writes all new keys and values before any query reads. What a layer ends with is
        joined with the norm that the next begins with.
        """
        num_tokens, layers, eps = len(batch.token_ids), self._weights.layers, self.config.rms_norm_eps
        residual = self._empty(num_tokens, self.config.hidden_size)
        self.operators.gather_rows(self._weights.embedding, batch.token_ids, residual, batch.sampled)
        rotation = torch.empty(num_tokens, 2, self.config.head_dim // 2, dtype=torch.float32, device=self.device)
        self.operators.rotations(batch.positions, self._frequencies, self._length, rotation)
        normed = torch.empty_like(residual)
        self.operators.rms_norm(residual, layers[0].attention_norm, eps, normed)
        for index, layer in enumerate(layers):
            queries, tasks = self._queries(layer, index, normed, rotation, batch, kv), batch.tasks
            is_last = index == len(layers) - 1
            if is_last and len(batch.logits_rows) == 0:
                return self._empty(0, self.config.vocab_size)
            if is_last:  # from here on nobody needs the other tokens
                residual = self._rows(residual, batch)
                normed = torch.empty_like(residual)
                if batch.last_tasks is not None:
                    queries, tasks = self._rows(queries, batch), batch.last_tasks()
            mixed = self.attention.run(tasks, queries, kv.layer(index))
            if is_last and batch.last_tasks is None:
                mixed = self._rows(mixed, batch)
            self.operators.add_product(layer.output, mixed.flatten(1), residual, layer.mlp_norm, eps, normed)
            norm = self._weights.final_norm if is_last else layers[index + 1].attention_norm
            # the largest tensors of a pass: none may be left when the next layer makes its own
            self.operators.add_product(layer.down, self._gated(layer.gate_up, normed), residual, norm, eps, normed)
        if logits is None:
            return self._weights.head(normed)
        self._weights.head.into(normed, logits)
        return logits

    def _queries(
        self,
        layer: LayerWeights,
        index: int,
        normed: torch.Tensor,
        rotation: torch.Tensor,
        batch: DeviceBatch,
        kv: PagedKVCache,
    ) -> torch.Tensor:
        """``[T, num_heads, head_dim]``; keys and values go to the cache."""
        config = self.config
        projected = self.operators.product(layer.qkv, normed)
        heads = projected.view(*projected.shape[:-1], -1, config.head_dim)
        margin = batch.tasks.margin
        around = self._empty(len(normed) + 2 * margin, config.num_heads, config.head_dim)
        queries = around[margin : margin + len(normed)]
        norms: Norms | None = None
        if layer.query_norm is not None and layer.key_norm is not None:
            norms = layer.query_norm, layer.key_norm, config.rms_norm_eps
        self.operators.rotate_and_cache(heads, rotation, batch.slots, kv.layer(index), queries, norms)
        return queries

    def _gated(self, gate_up: Linear, normed: torch.Tensor) -> torch.Tensor:
        out = self._empty(len(normed), self.config.intermediate_size)
        self.operators.gated_product(gate_up, normed, out)
        return out

    def _rows(self, table: torch.Tensor, batch: DeviceBatch) -> torch.Tensor:
        """Those whose logits are wanted, of ``[T, ...]``."""
        out = self._empty(len(batch.logits_rows), *table.shape[1:])
        self.operators.gather_rows(table.flatten(1), batch.logits_rows, out.flatten(1))
        return out

    def _empty(self, *shape: Any) -> torch.Tensor:
        return torch.empty(*shape, dtype=self.dtype, device=self.device)

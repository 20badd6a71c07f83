"""The attention seam: how queries meet the paged KV tensors. One sibling per kind of hardware."""

from typing import Any, Protocol

import torch

from anaphora.models.batch import ForwardBatch
from anaphora.models.kv_cache import PagedKVCache


class Attention(Protocol):
    """Causal attention of a flat batch over paged keys and values.

    A pass is planned once and then runs for every layer: what depends on block tables and lengths alone (views,
    gathers, tiles) is worked out in :meth:`plan`.
    """

    def plan(self, batch: ForwardBatch, kv: PagedKVCache) -> Any:
        """What :meth:`run` needs to know about this batch; opaque to the model."""
        ...

    def run(self, plan: Any, layer: int, heads: torch.Tensor, kv: PagedKVCache) -> torch.Tensor:
        """Write the layer's new keys and values into ``kv``, then attend.

        ``heads``: ``[T, num_heads + 2 * num_kv_heads, head_dim]``: queries and keys, turned by position, then values.
        A query at position ``p`` sees positions ``[0, p]`` of its own request. With ``n`` query heads to a KV head,
        query heads ``[g * n, (g + 1) * n)`` share KV head ``g``. Returns ``[T, num_heads * head_dim]``.
        """
        ...

"""The paged KV tensors: keys and values of every layer, addressed by slot."""

import torch


class PagedKVCache:
    """Keys and values of all layers. Slot ``block_id * block_size + offset`` holds one token.

    Layout per layer: ``[2, num_kv_heads, num_slots, head_dim]``, so blocks with neighbouring ids are one matrix per
    head and attention reads them as a view. The memory is not cleared and so costs nothing until it is written: what
    was never written may be NaN and must never reach a result.
    """

    def __init__(
        self,
        *,
        num_layers: int,
        num_kv_heads: int,
        head_dim: int,
        num_blocks: int,
        block_size: int,
        dtype: torch.dtype,
        device: torch.device | None = None,
    ) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        shape = (num_layers, 2, num_kv_heads, num_blocks * block_size, head_dim)
        self.dtype = dtype
        self.storage = torch.empty(shape, dtype=dtype, device=device)
        """``[num_layers, 2, num_kv_heads, num_slots, head_dim]``."""
        self._layers = self.storage.unbind()

    @property
    def num_bytes(self) -> int:
        """Size of keys and values together."""
        return self.storage.nbytes

    def layer(self, index: int) -> torch.Tensor:
        """Keys and values of a layer, ``[2, num_kv_heads, num_slots, head_dim]``; a view."""
        return self._layers[index]

    def write(self, index: int, slots: slice | torch.Tensor, heads: torch.Tensor) -> None:
        """Store one layer's new keys and values.

        ``heads``: ``[T, 2 * num_kv_heads, head_dim]``, keys, then values. ``slots``: where the ``T`` tokens go, ``[T]``
        int64 or, faster, one slice.
        """
        layer = self._layers[index]
        new = heads.view(len(heads), *layer.shape[:2], heads.shape[-1]).permute(1, 2, 0, 3)
        if isinstance(slots, slice):
            layer[:, :, slots].copy_(new)
        else:
            layer.index_copy_(2, slots, new)

    def gather_index(self, slots: torch.Tensor) -> torch.Tensor:
        """What :meth:`gather` needs to know of ``slots`` ``[n]`` int64: made once, used for every layer."""
        _, num_kv_heads, num_slots, _ = self._layers[0].shape
        heads = torch.arange(2 * num_kv_heads).unsqueeze(1)
        return (heads * num_slots + slots).flatten()

    def gather(self, index: int, gather_index: torch.Tensor) -> torch.Tensor:
        """A copy of one layer's keys and values at those slots, ``[2, num_kv_heads, n, head_dim]``."""
        layer = self._layers[index]
        # rows of one matrix: half the time of an indexed copy along the third dimension
        return layer.flatten(0, 2).index_select(0, gather_index).view(*layer.shape[:2], -1, layer.shape[-1])

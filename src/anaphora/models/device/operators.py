"""The operators that a pass is made of, as a seam: plain torch here, Triton kernels on a GPU.

Each writes into tensors that it is given. The plain ones are the definition: slow, right on every device, and what the
kernels are tested against.
"""

from typing import Protocol

import torch
from torch.nn import functional

from anaphora.models.linear import Linear

Norms = tuple[torch.Tensor, torch.Tensor, float]
"""RMSNorm over each query head and each key head: their weights ``[head_dim]``, and epsilon."""


class Operators(Protocol):
    """What :class:`anaphora.models.device.causal_lm.DeviceLM` calls."""

    def product(self, linear: Linear, x: torch.Tensor) -> torch.Tensor:
        """``[T, in_features]`` to ``[T, out_features]``, or to ``[S, T, out_features]`` float32: parts that
        :meth:`rotate_and_cache` adds up."""
        ...

    def add_product(
        self,
        linear: Linear,
        x: torch.Tensor,
        residual: torch.Tensor,
        weight: torch.Tensor,
        eps: float,
        out: torch.Tensor,
    ) -> None:
        """``residual += linear(x)``, then ``out = norm(residual)`` with the norm's ``weight``."""
        ...

    def gated_product(self, linear: Linear, x: torch.Tensor, out: torch.Tensor) -> None:
        """SiLU of the first half of the product's columns times the second half, to ``out``
        ``[T, out_features / 2]``."""
        ...

    def gather_rows(
        self, table: torch.Tensor, rows: torch.Tensor, out: torch.Tensor, earlier: torch.Tensor | None = None
    ) -> None:
        """``out[i] = table[rows[i]]``; with ``earlier``, a row number ``-1 - i`` stands for ``earlier[i]``."""
        ...

    def rotations(self, positions: torch.Tensor, frequencies: torch.Tensor, length: float, out: torch.Tensor) -> None:
        """Cosines and sines of ``positions`` ``[T]`` times ``frequencies`` ``[head_dim / 2]``, times ``length``, to
        ``out`` ``[T, 2, head_dim / 2]`` float32."""
        ...

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor) -> None:
        """``out = norm(x)``."""
        ...

    def rotate_and_cache(
        self,
        heads: torch.Tensor,
        rotation: torch.Tensor,
        slots: torch.Tensor,
        cache: torch.Tensor,
        queries: torch.Tensor,
        norms: Norms | None = None,
    ) -> None:
        """Turn queries and keys of ``heads`` ``[T, num_heads + 2 * num_kv_heads, head_dim]`` (or parts of it, as
        :meth:`product` gives them); queries go to ``queries``, keys and values to their ``slots`` of a layer's
        ``cache``. A token with a negative one is padding.
        """
        ...

    def argmax(self, logits: torch.Tensor, out: torch.Tensor) -> None:
        """The id of the largest logit of each row; of equal ones the lowest."""
        ...

    def move_slots(self, storage: torch.Tensor, pairs: torch.Tensor) -> None:
        """``storage[..., target, :] = storage[..., source, :]`` for each ``(source, target)`` of ``pairs`` ``[n, 2]``
        int32: of every layer's keys and values, ``[num_layers, 2, num_kv_heads, num_slots, head_dim]``."""
        ...


class PlainOperators:
    """By torch's public functions. See :class:`Operators`."""

    def product(self, linear: Linear, x: torch.Tensor) -> torch.Tensor:
        return linear(x)

    def add_product(
        self,
        linear: Linear,
        x: torch.Tensor,
        residual: torch.Tensor,
        weight: torch.Tensor,
        eps: float,
        out: torch.Tensor,
    ) -> None:
        self.rms_norm(residual.add_(linear(x)), weight, eps, out)

    def gated_product(self, linear: Linear, x: torch.Tensor, out: torch.Tensor) -> None:
        gate, up = linear(x).chunk(2, dim=-1)
        torch.mul(functional.silu(gate), up, out=out)

    def gather_rows(
        self, table: torch.Tensor, rows: torch.Tensor, out: torch.Tensor, earlier: torch.Tensor | None = None
    ) -> None:
        wanted = rows.long()
        if earlier is not None:
            known = earlier.long()[(-1 - wanted).clamp(min=0)]
            wanted = torch.where(wanted < 0, known, wanted)
        out.copy_(table[wanted])

    def rotations(self, positions: torch.Tensor, frequencies: torch.Tensor, length: float, out: torch.Tensor) -> None:
        angles = torch.outer(positions.float(), frequencies)
        out[:, 0] = angles.cos() * length
        out[:, 1] = angles.sin() * length

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor) -> None:
        out.copy_(functional.rms_norm(x, weight.shape, weight, eps))

    def rotate_and_cache(
        self,
        heads: torch.Tensor,
        rotation: torch.Tensor,
        slots: torch.Tensor,
        cache: torch.Tensor,
        queries: torch.Tensor,
        norms: Norms | None = None,
    ) -> None:
        num_heads, num_kv_heads = queries.shape[1], cache.shape[1]
        turned = heads[:, : num_heads + num_kv_heads]
        if norms is not None:
            query_norm, key_norm, eps = norms
            parts = torch.split(turned, [num_heads, num_kv_heads], dim=1)
            normed = [
                functional.rms_norm(part, weight.shape, weight, eps)
                for part, weight in zip(parts, (query_norm, key_norm), strict=True)
            ]
            turned = torch.cat(normed, dim=1)
        turned = _turned(turned, rotation)
        queries.copy_(turned[:, :num_heads])
        kept = slots >= 0
        new = torch.stack([turned[:, num_heads:], heads[:, num_heads + num_kv_heads :]]).transpose(1, 2)
        cache[:, :, slots[kept].long()] = new[:, :, kept]

    def argmax(self, logits: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(logits.argmax(dim=-1))

    def move_slots(self, storage: torch.Tensor, pairs: torch.Tensor) -> None:
        sources, targets = pairs.long().unbind(1)
        storage.index_copy_(-2, targets, storage.index_select(-2, sources))


def _turned(heads: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
    """Each pair of elements that lie side by side, turned; in float32, rounded at the end."""
    real, imaginary = heads.float().view(*heads.shape[:-1], -1, 2).unbind(-1)
    cosine, sine = rotation.unsqueeze(2).unbind(1)
    pairs = (real * cosine - imaginary * sine, real * sine + imaginary * cosine)
    return torch.stack(pairs, dim=-1).flatten(-2).to(heads.dtype)

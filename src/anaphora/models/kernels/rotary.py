"""Rotary embedding on the way into the paged cache: one pass over a layer's queries, keys and values.

Heads are laid out as :mod:`anaphora.models.rotary` has them: the two elements of a pair lie side by side.
"""

import torch
import triton
import triton.language as tl

from anaphora.models.kernels.early import launch_options, wait
from anaphora.models.kernels.launch import launch

HEADS = 8
"""Heads of one program."""


@triton.jit
def rotations_kernel(positions, frequencies, out, length, PAIRS: tl.constexpr, PADDED: tl.constexpr):
    """Cosine and sine of one token's pairs."""
    row = tl.program_id(0)
    pair = tl.arange(0, PADDED)
    inside = pair < PAIRS
    angle = tl.load(positions + row).to(tl.float32) * tl.load(frequencies + pair, mask=inside, other=0.0)
    tl.store(out + (row * 2) * PAIRS + pair, tl.cos(angle) * length, mask=inside)
    tl.store(out + (row * 2 + 1) * PAIRS + pair, tl.sin(angle) * length, mask=inside)


def rotations(positions: torch.Tensor, frequencies: torch.Tensor, length: float, out: torch.Tensor) -> None:
    """Turns of a pass, made once for all layers.

    ``positions`` ``[T]`` integer, ``frequencies`` ``[head_dim / 2]`` float32 radians per position, ``length`` by which
    heads are lengthened; ``out`` ``[T, 2, head_dim / 2]`` float32: cosines, sines.
    """
    num_pairs = frequencies.shape[0]
    launch(
        rotations_kernel,
        (len(positions),),
        positions,
        frequencies,
        out,
        length,
        PAIRS=num_pairs,
        PADDED=triton.next_power_of_2(num_pairs),
        num_warps=1,
    )


@triton.jit
def rotate_and_cache_kernel(
    heads,
    rotation,
    slots,
    cache,
    query_norm,
    key_norm,
    queries,
    eps,
    num_slots,
    NUM_HEADS: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    DIM: tl.constexpr,
    PADDED: tl.constexpr,
    HEADS: tl.constexpr,
    PARTS: tl.constexpr,
    HAS_NORM: tl.constexpr,
    EARLY: tl.constexpr,
):
    """Some heads of one token: queries to ``queries``, keys and values to the token's slot, if it has one."""
    TOTAL: tl.constexpr = NUM_HEADS + 2 * NUM_KV_HEADS
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    column = tl.arange(0, PADDED)
    inside = (head[:, None] < TOTAL) & (column[None, :] < DIM)
    wait(EARLY)
    raw = tl.load(heads + (token * TOTAL + head[:, None]) * DIM + column[None, :], mask=inside, other=0.0)
    for part in tl.static_range(1, PARTS):
        row = part * tl.num_programs(0) + token
        raw += tl.load(heads + (row * TOTAL + head[:, None]) * DIM + column[None, :], mask=inside, other=0.0)
    raw = raw.to(queries.dtype.element_ty)
    value = raw.to(tl.float32)
    if HAS_NORM:
        scale = tl.rsqrt(tl.sum(value * value, 1) / DIM + eps)
        gains = tl.where((head < NUM_HEADS)[:, None], query_norm + column[None, :], key_norm + column[None, :])
        gain = tl.load(gains, mask=inside, other=0.0).to(tl.float32)
        value = (value * scale[:, None] * gain).to(raw.dtype).to(tl.float32)
    pair = tl.arange(0, PADDED // 2)
    angle = rotation + token * DIM + pair
    cosine = tl.load(angle, mask=pair < DIM // 2, other=0.0)[None, :]
    sine = tl.load(angle + DIM // 2, mask=pair < DIM // 2, other=0.0)[None, :]
    real, imaginary = tl.split(tl.reshape(value, [HEADS, PADDED // 2, 2]))
    turned = tl.join(real * cosine - imaginary * sine, real * sine + imaginary * cosine)
    turned = tl.reshape(turned, [HEADS, PADDED])
    result = tl.where((head < NUM_HEADS + NUM_KV_HEADS)[:, None], turned.to(raw.dtype), raw)
    is_query = head[:, None] < NUM_HEADS
    tl.store(queries + (token * NUM_HEADS + head[:, None]) * DIM + column[None, :], result, mask=inside & is_query)
    slot = tl.load(slots + token).to(tl.int64) + 0 * head[:, None]
    at = (((head - NUM_HEADS)[:, None] * num_slots).to(tl.int64) + slot) * DIM + column[None, :]
    tl.store(cache + at, result, mask=inside & (slot >= 0) & (head[:, None] >= NUM_HEADS))


def rotate_and_cache(
    heads: torch.Tensor,
    rotation: torch.Tensor,
    slots: torch.Tensor,
    cache: torch.Tensor,
    queries: torch.Tensor,
    norms: tuple[torch.Tensor, torch.Tensor, float] | None = None,
    *,
    early: bool = False,
) -> None:
    """Turn queries and keys by position, write queries to ``queries``, keys and values to their slots.

    ``heads`` ``[T, num_heads + 2 * num_kv_heads, head_dim]`` contiguous, as the projection leaves them, or float32 with
    one more dimension in front: parts that are added up first; ``rotation`` as
    :func:`rotations` makes it; ``slots`` ``[T]`` integer, negative for a token that is padding; ``cache`` one layer's
    ``[2, num_kv_heads, num_slots, head_dim]``; ``queries`` ``[T, num_heads, head_dim]``. ``norms``: weights
    ``[head_dim]`` of an RMSNorm over each query and each key head, and its epsilon. ``early``: see
    :mod:`anaphora.models.kernels.early`.
    """
    num_tokens, num_heads, dim = queries.shape
    num_kv_heads, num_slots = cache.shape[1:3]
    query_norm, key_norm, eps = norms if norms is not None else (queries, queries, 0.0)
    launch(
        rotate_and_cache_kernel,
        (num_tokens, triton.cdiv(num_heads + 2 * num_kv_heads, HEADS)),
        heads,
        rotation,
        slots,
        cache,
        query_norm,
        key_norm,
        queries,
        eps,
        num_slots,
        NUM_HEADS=num_heads,
        NUM_KV_HEADS=num_kv_heads,
        DIM=dim,
        PADDED=triton.next_power_of_2(dim),
        HEADS=HEADS,
        PARTS=1 if heads.dim() == 3 else len(heads),
        HAS_NORM=norms is not None,
        EARLY=early,
        num_warps=HEADS // 2,
        **launch_options(early),
    )

"""Sizes of captured steps: a step is padded to the next one, so that few graphs serve all small steps."""

from bisect import bisect_left

TOKEN_BUCKETS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 576, 640, 768, 896, 1024)
"""New tokens of a step, over all its requests. 576: ``target_prefill_tokens`` and some requests that decode. Steps that
are larger are launched operator by operator: the GPU is then slower than the host."""


def buckets_up_to(max_num_tokens: int) -> tuple[int, ...]:
    """The buckets that steps of at most ``max_num_tokens`` tokens need; the last one may be smaller than usual.

    >>> buckets_up_to(20)
    (1, 2, 4, 8, 16, 24)
    """
    return TOKEN_BUCKETS[: bisect_left(TOKEN_BUCKETS, max_num_tokens) + 1]


def bucket_of(num_tokens: int, buckets: tuple[int, ...] = TOKEN_BUCKETS) -> int | None:
    """The smallest bucket that holds ``num_tokens``; ``None`` if there is none.

    >>> bucket_of(17), bucket_of(1025)
    (24, None)
    """
    index = bisect_left(buckets, num_tokens)
    return buckets[index] if index < len(buckets) else None

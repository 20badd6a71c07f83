"""Launching kernels; or compiling them side by side, so that the first start of a server does not do it one by one."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch
import triton

_met: set[object] | None = None
"""Launches that were met while compiling; ``None``: kernels are launched."""


def launch(kernel: Any, grid: tuple[int, ...], *args: Any, **options: Any) -> None:
    """Run ``kernel`` on a grid of programs, or within :func:`compiling` see to it that it can be."""
    if _met is None:
        kernel[grid](*args, **options)
        return
    kinds = tuple(arg.dtype if isinstance(arg, torch.Tensor) else arg for arg in args)
    key = kernel, kinds, tuple(sorted(options.items()))
    if key not in _met:
        _met.add(key)
        kernel.warmup(*args, grid=grid, **options)


@contextmanager
def compiling(num_threads: int) -> Iterator[None]:
    """Within it kernels are compiled instead of launched, in ``num_threads`` threads; at its end they are ready.

    What they would have written is not written. A kernel that cannot be compiled says so when it is launched. For one
    thread at a time.
    """
    global _met
    with ThreadPoolExecutor(num_threads) as pool, triton.AsyncCompileMode(pool, ignore_errors=True):
        _met = set()
        try:
            yield
        finally:
            _met = None

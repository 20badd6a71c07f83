"""Launching kernels; or compiling them side by side, so that the first start of a server does not do it one by one."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch
import triton
from triton.compiler import CompiledKernel

_met: set[object] | None = None
"""Launches that were met while compiling; ``None``: kernels are launched."""
_ready: dict[object, tuple[Any, Any, tuple[Any, ...]]] = {}
"""By what they were compiled for: kernels, which are known by their place in memory and so must keep it; what was
compiled; and constants in the order of the parameters."""


def launch(kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
    """Run ``kernel`` on a grid of programs, or within :func:`compiling` see to it that it can be.

    ``args`` are those that are no constants; ``constants`` may hold options of the compiler, too. Triton looks for the
    compiled kernel at every launch, which takes more time than the launch: so what it found is remembered.
    """
    if _met is None:
        kind = (id(kernel), *map(_kind, args), *constants, *constants.values(), *map(type, constants.values()))
        ready = _ready.get(kind)
        if ready is None:
            compiled = kernel[grid](*args, **constants)
            compiled = compiled.result() if hasattr(compiled, "result") else compiled
            if isinstance(compiled, CompiledKernel):  # nothing is, in the interpreter
                _ready[kind] = kernel, compiled, tuple(constants[name] for name in kernel.arg_names[len(args) :])
            return
        _, compiled, in_order = ready
        compiled[(*grid, 1, 1)[:3]](*args, *in_order)
        return
    kinds = tuple(arg.dtype if isinstance(arg, torch.Tensor) else arg for arg in args)
    key = kernel, kinds, tuple(sorted(constants.items()))
    if key not in _met:
        _met.add(key)
        kernel.warmup(*args, grid=grid, **constants)


def _kind(arg: Any) -> object:
    """All that Triton compiles an argument for, or more."""
    if isinstance(arg, torch.Tensor):
        return arg.dtype, arg.device, arg.data_ptr() % 16 == 0
    if isinstance(arg, int):
        return type(arg), arg == 1, arg % 16 == 0, -(2**31) <= arg < 2**31
    return type(arg)


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

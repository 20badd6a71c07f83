"""Launching a kernel before the one that it depends on has ended: CUDA's programmatic dependent launch, on Hopper.

Its programs then take the places that the kernel before leaves free, ask for what depends on nothing, and wait. Every
kernel of a pass waits, so whatever came before the one before has ended too. ``EARLY`` says that a kernel was launched
like that; kernels of libraries among them are launched as usual, and wait for everything.
"""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def wait(EARLY: tl.constexpr):
    """Until what the kernel before has written can be read. Then the next kernel may be launched."""
    if EARLY:
        gdc_wait()
        gdc_launch_dependents()


@triton.jit
def prefetch(pointers):
    """Ask for the cache lines of ``pointers`` to come into the second-level cache."""
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [pointers.to(tl.int64, bitcast=True)],
        dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip


def launch_options(early: bool) -> dict[str, bool]:
    """Keyword arguments of a launch."""
    return {"launch_pdl": True} if early else {}

"""Captured passes: recorded once, replayed by one launch."""

import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

import torch

logger = logging.getLogger(__name__)

Pass = Callable[[], torch.Tensor]
"""Computes a batch that lies in fixed places; its result lies in a fixed place too once it is captured."""


class Capture(Protocol):
    """How a pass becomes one that can be replayed."""

    def __call__(self, compute: Pass) -> Pass:
        """A function that does what ``compute`` does with whatever then lies in the inputs' places."""
        ...


class CudaCapture:
    """By CUDA graphs with one pool of memory: so no two of them may be in use at the same time but in stream order."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: Any = None
        # one for all: cuBLAS keeps a workspace for every stream that it has seen
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def __call__(self, compute: Pass) -> Pass:
        """See the protocol. Computed once before it is recorded: kernels are compiled and loaded then."""
        started_s = time.perf_counter()
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            compute()
        torch.cuda.current_stream(self._device).wait_stream(self._stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            result = compute()
        self._pool = self._pool or graph.pool()
        logger.debug("captured a pass in %.2f s", time.perf_counter() - started_s)

        def replay() -> torch.Tensor:
            graph.replay()
            return result

        return replay


def compute_only(compute: Pass) -> Pass:
    """Captures nothing: what is computed is computed."""
    compute()
    return compute


class EmulatedCapture:
    """For any device: the pass is computed again each time, into the place of its first result."""

    def __call__(self, compute: Pass) -> Pass:
        """See the protocol."""
        result = compute()
        return lambda: result.copy_(compute())

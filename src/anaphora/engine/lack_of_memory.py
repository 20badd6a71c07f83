"""Which failures of a step say that there is no memory, whoever asked for it."""

import torch

_WORDS = (
    "out of memory",  # CUDA itself, and Triton where it loads a kernel
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "can't allocate memory",  # torch's allocator on the host
)


def is_lack_of_memory(error: BaseException) -> bool:
    """Whether a step failed for want of memory: torch has a class for its own allocator on a GPU only."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _WORDS)

"""Another process that takes nearly all of a GPU's memory, when it is told to, and gives it back by ending.

python -m benchmarks.gpu.overload.hog BYTES_TO_LEAVE
"""

import json
import subprocess
import sys
from typing import Any, Protocol


class MemoryHog(Protocol):
    """What makes the device's memory scarce for a while."""

    def take(self) -> dict[str, Any]:
        """Take it; what there is to tell of it."""

    def give_back(self) -> None:
        """Return when it is free again."""


class GpuHog:
    """The process. It loads torch while others do something else, and touches the GPU in :meth:`take` only."""

    def __init__(self, bytes_to_leave: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.gpu.overload.hog", str(bytes_to_leave)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def take(self) -> dict[str, Any]:
        """See :class:`MemoryHog`. Bytes that it holds, and that are free besides."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"take\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process that was to take the GPU's memory ended: {self._process.wait()}")
        told: dict[str, Any] = json.loads(line)
        return told

    def give_back(self) -> None:
        """See :class:`MemoryHog`."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def kill(self) -> None:
        """Whatever it is doing; it may have ended, too."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def main() -> None:
    """See the module."""
    import torch

    bytes_to_leave = int(sys.argv[1])
    sys.stdin.readline()
    held: list[Any] = []
    size = torch.cuda.mem_get_info()[0] - bytes_to_leave
    while size >= 2**21:
        try:
            held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError:
            size //= 2
        else:
            size = min(size, torch.cuda.mem_get_info()[0] - bytes_to_leave)
    taken = sum(tensor.numel() for tensor in held)
    print(json.dumps({"hog_bytes": taken, "free_bytes": torch.cuda.mem_get_info()[0]}), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()

"""The OpenMP threads that share a thread's matrix products: which they are, and what Linux tells and takes of them."""

import ctypes
import os
import re
import sys
import threading
from pathlib import Path

_MAPS = Path("/proc/self/maps")
_TASKS = Path("/proc/self/task")


def workers_of_this_thread(num_threads: int) -> tuple[int, ...]:
    """Kernel ids of the threads that help the calling one in regions of ``num_threads``.

    They are asked from within such a region. Empty where there are none, or where the runtime is not GNU's.
    """
    runtime = _runtime() if sys.platform == "linux" and num_threads > 1 else None
    if runtime is None:
        return ()
    found: list[int] = []

    def tell(_: object) -> None:
        found.append(threading.get_native_id())

    runtime.GOMP_parallel(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(tell), None, num_threads, 0)
    return tuple(thread_id for thread_id in found if thread_id != threading.get_native_id())


def _runtime() -> ctypes.CDLL | None:
    """The runtime that torch has loaded; ``None`` if it has not, or if several are loaded and none is torch's own."""
    paths = set(re.findall(r"/\S*libgomp\S*\.so\S*", _MAPS.read_text("utf-8")))
    (path, *others) = sorted(paths, key=lambda path: "torch" not in path) or [""]
    if not path or (others and "torch" not in path):
        return None
    runtime = ctypes.CDLL(path)
    return runtime if hasattr(runtime, "GOMP_parallel") else None


class LinuxThreads:
    """What the kernel says of this process's threads. Every method may raise ``OSError``."""

    def __init__(self) -> None:
        self._sched_getcpu = ctypes.CDLL(None).sched_getcpu

    def core(self) -> int:
        """On which the calling thread runs."""
        return int(self._sched_getcpu())

    def cores_of(self, thread_id: int = 0) -> set[int]:
        """On which a thread may run; 0: the calling one."""
        return os.sched_getaffinity(thread_id)

    def allow(self, thread_id: int, cores: set[int]) -> None:
        """Let a thread run on ``cores`` only."""
        os.sched_setaffinity(thread_id, cores)

    def waited_s(self, thread_id: int) -> float:
        """Seconds, in all, that a thread had work to do and no core to do it on."""
        _, waited_ns, _ = (_TASKS / str(thread_id) / "schedstat").read_text("ascii").split()
        return int(waited_ns) / 1e9

"""Where the threads of a step run. The one idea: none of its workers on the core of the thread that waits for them.

The engine's thread and its OpenMP workers wait for each other some hundred times in a step, asleep but for a short
spin (:mod:`anaphora.engine.openmp`). Linux wakes a worker where it ran last if it finds no idle core at that moment:
once the event loop was on the other core when a step began, worker and engine take turns on one core for the whole
step, since neither is ever seen to wait while the other runs. So workers are kept off the core where the engine's
thread begins a step.

Where other programs use the cores, that would bind a worker to a core it cannot have. The kernel counts how long a
thread was ready and had no core; if workers waited for much of a step, they are let go for a while, and for longer
each time. They are never allowed more cores than the engine's own thread, and nothing is done if the user has placed
OpenMP's threads.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from anaphora.engine.worker_threads import LinuxThreads, workers_of_this_thread

_USERS_CHOICES = ("GOMP_CPU_AFFINITY", "OMP_PROC_BIND", "OMP_PLACES")
MAX_WORKERS = 7
"""With more of them, what is asked of the kernel in each step adds up; nor were more measured."""
CROWDED = 0.2
"""Share of a step for which a worker may wait for its core."""
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0


class Threads(Protocol):
    """What is asked of the kernel; see :class:`anaphora.engine.worker_threads.LinuxThreads`."""

    def core(self) -> int: ...
    def cores_of(self, thread_id: int = 0) -> set[int]: ...
    def allow(self, thread_id: int, cores: set[int]) -> None: ...
    def waited_s(self, thread_id: int) -> float: ...


class ThreadPlacement:
    """Keeps ``workers`` off the core of the thread that enters it for a step, as long as that pays."""

    def __init__(
        self, workers: Sequence[int], threads: Threads, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._workers = workers
        self._threads = threads
        self._clock = clock
        self._pause_s = SHORTEST_PAUSE_S
        self._paused_until_s = 0.0
        self._are_apart = False
        self._begun_s = 0.0
        self._waited_s: list[float] = []

    def __enter__(self) -> None:
        """A step begins."""
        self._begun_s = self._clock()
        if self._workers and (self._are_apart or self._begun_s >= self._paused_until_s):
            self._or_give_up(self._place)

    def __exit__(self, *_: object) -> None:
        """It has ended: did the workers get their cores?"""
        if self._workers and self._are_apart:
            self._or_give_up(self._judge)

    def _place(self) -> None:
        self._waited_s = self._waits_s()
        allowed = self._threads.cores_of()
        others = allowed - {self._threads.core()}
        self._are_apart = self._begun_s >= self._paused_until_s and len(others) >= len(self._workers)
        self._allow(others if self._are_apart else allowed)

    def _judge(self) -> None:
        lasted_s = self._clock() - self._begun_s
        waited_s = max(now - before for now, before in zip(self._waits_s(), self._waited_s, strict=True))
        if waited_s > CROWDED * lasted_s:
            self._paused_until_s = self._clock() + self._pause_s
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        else:
            self._pause_s = SHORTEST_PAUSE_S

    def _waits_s(self) -> list[float]:
        return [self._threads.waited_s(worker) for worker in self._workers]

    def _allow(self, cores: set[int]) -> None:
        for worker in self._workers:
            self._threads.allow(worker, cores)

    def _or_give_up(self, ask: Callable[[], None]) -> None:
        """A worker has ended, or this system does not tell: from now on all is as the kernel likes."""
        try:
            ask()
        except OSError:
            with suppress(OSError):
                self._allow(self._threads.cores_of())
            self._workers = ()


def placement_of_this_thread(num_threads: int, environment: Mapping[str, str] = os.environ) -> ThreadPlacement | None:
    """For steps of ``num_threads`` in the calling thread.

    ``None``: there is nobody to place, or too many, or this system cannot, or the user has placed OpenMP's threads.
    """
    if not 0 < num_threads - 1 <= MAX_WORKERS or any(name in environment for name in _USERS_CHOICES):
        return None
    workers = workers_of_this_thread(num_threads)
    return ThreadPlacement(workers, LinuxThreads()) if workers else None

"""Workers stay off the core where a step begins, unless they find the other cores taken; nobody gets more cores."""

import os
import subprocess
import sys

import pytest

from anaphora.engine.thread_placement import (
    LONGEST_PAUSE_S,
    MAX_WORKERS,
    SHORTEST_PAUSE_S,
    ThreadPlacement,
    placement_of_this_thread,
)


class Machine:
    """A scripted kernel with its clock. ``waits_s``: what each worker waits for a core in a step of one second."""

    def __init__(self, cores: set[int], waits_s: float = 0.0) -> None:
        self.cores = cores
        self.here = min(cores)
        self.waits_s = waits_s
        self.now_s = 100.0
        self.allowed: dict[int, set[int]] = {}
        self.fails = False
        self._waited_s = 5.0

    def clock(self) -> float:
        return self.now_s

    def core(self) -> int:
        return self.here

    def cores_of(self, thread_id: int = 0) -> set[int]:
        return set(self.cores)

    def allow(self, thread_id: int, cores: set[int]) -> None:
        self.allowed[thread_id] = cores

    def waited_s(self, thread_id: int) -> float:
        if self.fails:
            raise ProcessLookupError
        return self._waited_s

    def step(self, placement: ThreadPlacement) -> None:
        with placement:
            self.now_s += 1.0
            self._waited_s += self.waits_s


def test_workers_are_kept_off_the_core_where_the_step_begins() -> None:
    machine = Machine({2, 3, 5})
    placement = ThreadPlacement([11, 12], machine, clock=machine.clock)
    machine.step(placement)
    assert machine.allowed == {11: {3, 5}, 12: {3, 5}}
    machine.here = 5
    machine.step(placement)
    assert machine.allowed == {11: {2, 3}, 12: {2, 3}}


@pytest.mark.parametrize("cores", [{4}, {4, 5}])
def test_where_cores_are_fewer_than_threads_nobody_is_moved(cores: set[int]) -> None:
    machine = Machine(cores)
    machine.step(ThreadPlacement([11, 12], machine, clock=machine.clock))
    assert machine.allowed == {11: cores, 12: cores}


def test_workers_that_wait_for_their_core_are_let_go_for_longer_each_time() -> None:
    machine = Machine({0, 1}, waits_s=0.5)
    placement = ThreadPlacement([11], machine, clock=machine.clock)
    paused_s = []
    for _ in range(9):
        machine.step(placement)
        assert machine.allowed == {11: {1}}
        begun_s = machine.now_s
        machine.step(placement)
        while machine.allowed == {11: {0, 1}}:
            machine.step(placement)
        paused_s.append(machine.now_s - 1 - begun_s)  # the last step was one apart again
        machine.now_s += LONGEST_PAUSE_S
    assert paused_s == sorted(paused_s)
    assert (paused_s[0], paused_s[-1]) == (SHORTEST_PAUSE_S, LONGEST_PAUSE_S)


def test_a_good_step_forgives() -> None:
    machine = Machine({0, 1}, waits_s=0.5)
    placement = ThreadPlacement([11], machine, clock=machine.clock)
    for waits_s in (0.5, 0.0, 0.5):
        machine.waits_s = waits_s
        machine.step(placement)
        machine.now_s += LONGEST_PAUSE_S
    machine.now_s += SHORTEST_PAUSE_S - LONGEST_PAUSE_S
    machine.step(placement)
    assert machine.allowed == {11: {1}}


def test_cores_taken_away_in_between_are_not_given_back() -> None:
    machine = Machine({0, 1, 2})
    placement = ThreadPlacement([11], machine, clock=machine.clock)
    machine.step(placement)
    machine.cores = {0, 2}
    machine.step(placement)
    assert machine.allowed == {11: {2}}


def test_a_kernel_that_does_not_tell_is_left_alone() -> None:
    machine = Machine({0, 1})
    placement = ThreadPlacement([11], machine, clock=machine.clock)
    machine.step(placement)
    machine.fails = True
    machine.step(placement)
    assert machine.allowed == {11: {0, 1}}
    machine.fails, machine.allowed = False, {}
    machine.step(placement)
    assert machine.allowed == {}


@pytest.mark.parametrize("num_threads", [0, 1, MAX_WORKERS + 2])
def test_nobody_to_place_or_too_many(num_threads: int) -> None:
    assert placement_of_this_thread(num_threads, {}) is None


def test_the_users_own_placement_stays() -> None:
    assert placement_of_this_thread(2, {"OMP_PROC_BIND": "close"}) is None


PROGRAM = """
import os, threading
import anaphora.engine
import torch
from anaphora.engine.thread_placement import placement_of_this_thread
from anaphora.engine.worker_threads import LinuxThreads, workers_of_this_thread
torch.set_num_threads(3)
torch.ones(1000, 1000) @ torch.ones(1000, 1000)
workers = workers_of_this_thread(3)
assert workers_of_this_thread(3) == workers or set(workers_of_this_thread(3)) == set(workers)
threads = LinuxThreads()
before = os.sched_getaffinity(0)
placement = placement_of_this_thread(3, {})
with placement:
    torch.ones(1000, 1000) @ torch.ones(1000, 1000)
mine = {int(name) for name in os.listdir("/proc/self/task")}
assert all(os.sched_getaffinity(worker) <= before for worker in workers)
assert all(threads.waited_s(worker) >= 0 for worker in workers)
assert threads.core() in before and os.sched_getaffinity(0) == before
print(len(set(workers)), set(workers) < mine, os.getpid() in workers)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells of threads")
def test_the_workers_of_a_real_process() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP", "GOMP"))}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (["2", "True", "False"], "")

"""Tasks over processes: what they give, how far they are, and what becomes of processes when something goes wrong."""

import multiprocessing
import os
import signal
import time
from functools import partial

import pytest

from anaphora.errors import ConfigError, LostProcessError
from anaphora.sim.spread import Progress, Task, spread


def square(number: int, progress: Progress) -> tuple[int, int]:
    progress(1)
    progress(number)
    return number**2, os.getpid()


def refuse(progress: Progress) -> None:
    raise ConfigError("give something else")


def sleep(progress: Progress) -> None:
    time.sleep(60)


def die(progress: Progress) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("num_jobs", [1, 2, 9])
def test_results_are_in_order_and_progress_is_whole(num_jobs: int) -> None:
    done: list[int] = []
    results = spread([partial(square, number) for number in range(5)], done.append, num_jobs=num_jobs)
    assert [result for result, _ in results] == [0, 1, 4, 9, 16]
    assert sum(done) == 5 + sum(range(5))
    is_here = {process == os.getpid() for _, process in results}
    assert is_here == {num_jobs == 1}
    assert not multiprocessing.active_children()


def test_closures_are_tasks_too_and_see_what_the_caller_has() -> None:
    here = {"number": 1}

    def look(progress: Progress) -> int:
        return here["number"]

    assert spread([look] * 2, lambda num_done: None, num_jobs=2) == [1, 1]
    nothing: list[Task[int]] = []
    assert spread(nothing, lambda num_done: None, num_jobs=2) == []


def test_an_error_is_the_callers_and_ends_the_others() -> None:
    with pytest.raises(ConfigError, match="give something else") as caught:
        spread([sleep, refuse], lambda num_done: None, num_jobs=2)
    assert "in refuse" in caught.value.__notes__[0], "where it was raised is told"
    assert not multiprocessing.active_children()


def test_a_process_that_dies_is_told_of() -> None:
    with pytest.raises(LostProcessError, match="by signal 9: if memory ran out, use fewer"):
        spread([sleep, die], lambda num_done: None, num_jobs=2)
    assert not multiprocessing.active_children()


def test_an_interruption_ends_all_processes() -> None:
    def interrupted(num_done: int) -> None:
        raise KeyboardInterrupt  # as when the signal comes while the caller waits

    tasks: list[Task[object]] = [sleep, partial(square, 1)]
    with pytest.raises(KeyboardInterrupt):
        spread(tasks, interrupted, num_jobs=2)
    assert not multiprocessing.active_children()


def test_processes_leave_ctrl_c_to_the_caller() -> None:
    def interrupt(progress: Progress) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return "still there"

    assert spread([interrupt] * 2, lambda num_done: None, num_jobs=2) == ["still there"] * 2

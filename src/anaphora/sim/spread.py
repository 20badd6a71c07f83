"""Tasks over processes. Forked ones share what the caller has read, and each takes the next task as it becomes free."""

import gc
import os
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from anaphora.errors import LostProcessError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess
    from multiprocessing.sharedctypes import Synchronized

Result = TypeVar("Result")
Progress = Callable[[int], None]
"""Is told how much more is done."""
Task = Callable[[Progress], Result]
"""What can be done apart from all else. Its result can be pickled."""


def spread(tasks: Sequence[Task[Result]], progress: Progress, *, num_jobs: int) -> list[Result]:
    """Every task's result, in the order of ``tasks``. One process does all of it itself.

    Raises:
        LostProcessError: a process died, as when there is no memory left.
    """
    num_workers = min(num_jobs, len(tasks))
    if num_workers <= 1:
        return [_after_others(task, progress, number) for number, task in enumerate(tasks)]
    results: dict[int, Result] = {}
    with _workers(tasks, num_workers) as messages:
        for number, num_done, outcome in messages:
            progress(num_done)
            if isinstance(outcome, BaseException):
                raise outcome
            if number is not None:
                results[number] = outcome
    return [results[number] for number in range(len(tasks))]


def _after_others(task: Task[Result], progress: Progress, num_others: int) -> Result:
    if num_others:
        gc.collect()  # what the task before leaves is full of cycles, and replays pause the search for them
    return task(progress)


_Message = tuple[int | None, int, Any]
"""The task that is done, if one is; how much more is done; its result, or what it raised."""


@contextmanager
def _workers(tasks: Sequence[Task[Any]], num_workers: int) -> Iterator[Iterator[_Message]]:
    """Processes at work, and what they say until all is done. None outlives the context, however it is left."""
    from multiprocessing import get_context

    context = get_context("fork")
    taken = context.Value("q", 0)
    workers: dict[Connection, BaseProcess] = {}
    try:
        for _ in range(num_workers):
            reader, writer = context.Pipe(duplex=False)
            arguments = (tasks, taken, writer, os.getpid())
            workers[reader] = context.Process(target=_work, args=arguments, daemon=True)
            with warnings.catch_warnings():
                # Newer Pythons warn of forks beside threads. A worker needs no lock of theirs: it computes, and talks
                # to its own pipe alone.
                warnings.filterwarnings("ignore", ".*multi-threaded", DeprecationWarning)
                workers[reader].start()
            writer.close()  # the worker's is the last one: the pipe ends with it
        yield _messages(workers)
    finally:
        for reader, worker in workers.items():
            if worker.pid is not None:
                worker.terminate()
                worker.join()
            reader.close()


def _messages(workers: "Mapping[Connection, BaseProcess]") -> Iterator[_Message]:
    from multiprocessing.connection import wait

    working = dict(workers)
    while working:
        ready = wait(list(working))
        for reader in [one for one in working if one in ready]:
            try:
                yield reader.recv()
            except EOFError:
                _expect_success(working.pop(reader))


def _expect_success(worker: "BaseProcess") -> None:
    worker.join()
    code = worker.exitcode or 0
    if code:
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        raise LostProcessError(f"a process was ended too early, {how}: if memory ran out, use fewer of them (--jobs 1)")


def _work(tasks: Sequence[Task[Any]], taken: "Synchronized[int]", writer: "Connection", caller: int) -> None:
    """A worker's whole life."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the caller, who ends its workers
    gc.freeze()  # a search for cycles in what the caller has read would write to it: it would be shared no more

    def progress(num_done: int) -> None:
        if os.getppid() != caller:
            os._exit(1)  # nobody will hear of it
        writer.send((None, num_done, None))

    for num_others in range(len(tasks)):
        with taken.get_lock():
            number = taken.value
            taken.value += 1
        if number >= len(tasks):
            break
        try:
            outcome = _after_others(tasks[number], progress, num_others)
        except Exception as error:
            error.add_note(traceback.format_exc())
            outcome = error
        writer.send((number, 0, outcome))
    writer.close()
    os._exit(0)  # no clean-up of what is the caller's: its buffers may be locked by a thread that is not here

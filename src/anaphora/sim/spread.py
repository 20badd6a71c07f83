"""Plans over processes: each process gets the runner once, and plans as it becomes free."""

import gc
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Protocol, TypeVar

Plan = TypeVar("Plan", contravariant=True)
Result = TypeVar("Result", covariant=True)
Progress = Callable[[int], None]


class Runner(Protocol[Plan, Result]):
    """Something that can be sent to another process and carries plans out, each by itself."""

    @property
    def num_requests_per_run(self) -> int:
        """What ``progress`` is told of in one run, altogether."""
        ...

    def run(self, plan: Plan, progress: Progress) -> Result: ...


def spread(runner: Runner[Plan, Result], plans: Sequence[Plan], progress: Progress, *, num_jobs: int) -> list[Result]:
    """Every plan's result, in the order of ``plans``. From other processes ``progress`` hears of whole runs."""
    if num_jobs == 1 or len(plans) <= 1:
        return [_run_after_others(runner, plan, progress, number) for number, plan in enumerate(plans)]
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    results: dict[int, Result] = {}
    spawn = get_context("spawn")  # a fork would copy whatever threads the caller has
    with ProcessPoolExecutor(min(num_jobs, len(plans)), spawn, _start_worker, (runner,)) as workers:
        futures = {workers.submit(_run_in_worker, plan): number for number, plan in enumerate(plans)}
        for future in as_completed(futures):
            results[futures[future]] = future.result()
            progress(runner.num_requests_per_run)
    return [results[number] for number in range(len(plans))]


def _run_after_others(runner: Runner[Plan, Result], plan: Plan, progress: Progress, num_others: int) -> Result:
    if num_others:
        gc.collect()  # what the run before leaves is full of cycles, and runs pause the search for them
    return runner.run(plan, progress)


_worker_runner: list[Runner[Any, Any]] = []
_num_run = count()


def _start_worker(runner: Runner[Any, Any]) -> None:
    _worker_runner.append(runner)


def _run_in_worker(plan: Any) -> Any:
    return _run_after_others(_worker_runner[0], plan, lambda num_done: None, next(_num_run))

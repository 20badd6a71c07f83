"""Plans over processes: each process gets the runner once, and plans as it becomes free."""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
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
        return [runner.run(plan, progress) for plan in plans]
    results: dict[int, Result] = {}
    spawn = get_context("spawn")  # a fork would copy whatever threads the caller has
    with ProcessPoolExecutor(min(num_jobs, len(plans)), spawn, _start_worker, (runner,)) as workers:
        futures = {workers.submit(_run_in_worker, plan): number for number, plan in enumerate(plans)}
        for future in as_completed(futures):
            results[futures[future]] = future.result()
            progress(runner.num_requests_per_run)
    return [results[number] for number in range(len(plans))]


_worker_runner: list[Runner[Any, Any]] = []


def _start_worker(runner: Runner[Any, Any]) -> None:
    _worker_runner.append(runner)


def _run_in_worker(plan: Any) -> Any:
    return _worker_runner[0].run(plan, lambda num_done: None)

"""How long work tells how far it is: a call per step, and a bar on the terminal for whoever watches."""

from collections.abc import Callable
from typing import Any, Self

Progress = Callable[[str, int, int], None]
"""``progress(task, done, total)``: ``done`` of ``total`` bytes of the named task; ``total`` 0 when it is not known."""


def silent(task: str, done: int, total: int) -> None:
    """A progress that nobody sees."""


class TerminalProgress:
    """A progress bar on standard error: ``with TerminalProgress() as bar: find_checkpoint(model, progress=bar)``.

    Nothing is shown until the first call, so that work already done stays quiet.
    """

    def __init__(self) -> None:
        self._bar: Any = None
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __call__(self, task: str, done: int, total: int) -> None:
        """Show ``done`` of ``total`` bytes of ``task``."""
        bar = self._bar or self._start()
        if task not in self._tasks:
            self._tasks[task] = bar.add_task(task, total=total or None)
        bar.update(self._tasks[task], completed=done, total=total or None)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _start(self) -> Any:
        from rich.console import Console  # slow to import, and mostly there is nothing to show
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=Console(stderr=True))
        self._bar.start()
        return self._bar

"""What the doctor waits for, so that nobody sits before a silent screen while a server does not answer."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

PATIENCE_S = 3.0
"""Where there is no terminal, a wait is told of after so long."""


class Waiting:
    """Tells of waits on ``console``, which is not where results go: on a terminal as they go on, elsewhere in one line
    for each that lasts."""

    def __init__(self, console: Console, what: str, *, patience_s: float | None = None) -> None:
        self._console = console
        self._what = what
        self._patience_s = PATIENCE_S if patience_s is None else patience_s

    @contextmanager
    def during(self, check: str) -> Iterator[None]:
        """While this check is made."""
        text = f"{check}: waiting for {self._what}"
        if not self._console.is_terminal:
            handle = asyncio.get_running_loop().call_later(self._patience_s, self._tell, text)
            try:
                yield
            finally:
                handle.cancel()
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        with Progress(*columns, console=self._console, transient=True) as shown:
            shown.add_task(text, total=None)
            yield

    def _tell(self, text: str) -> None:
        self._console.print(Text(f"· {text}"), soft_wrap=True)

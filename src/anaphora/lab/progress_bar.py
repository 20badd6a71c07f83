"""A bar on a terminal and lines elsewhere: what the progress of every long run is made of."""

from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text


class ProgressBar:
    """Everything goes to ``console``, which is not where results go. ``fields`` stand behind the elapsed time, as
    texts."""

    def __init__(self, console: Console, *, fields: tuple[str, ...] = ()) -> None:
        self._console = console
        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[count]}", markup=False),
            TimeElapsedColumn(),
            *(TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in fields),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        empty: dict[str, Any] = dict.fromkeys(("count", *fields), "")
        self._task = self._bar.add_task("", total=None, **empty)
        self._said = ""

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Give the terminal back."""
        self._bar.stop()

    def note(self, text: str) -> None:
        """A line that stays."""
        self._bar.console.print(Text(f"· {text}"), soft_wrap=True)

    def waiting(self, text: str) -> None:
        """What is being waited for: beside the bar, or as a line when it changes."""
        if self._console.is_terminal:
            self._bar.update(self._task, description=text)
        elif text != self._said:
            self._said = text
            self.note(text)

"""How far a long command is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def progress_bar(console: "Console", label: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, and not a word elsewhere. What it gives is to be called with how much more was done."""
    if not console.is_terminal:
        yield lambda num_done: None
        return
    from rich.progress import Progress

    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda num_done: bar.advance(task, num_done)

"""How far a long command is."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, and not a word elsewhere. What it gives is to be called with how much more was done."""
    if not sys.stderr.isatty():
        yield lambda num_done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda num_done: bar.advance(task, num_done)

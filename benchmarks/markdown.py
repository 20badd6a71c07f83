"""Tables for Markdown pages. Standard library alone: ``scripts/generate_docs.py`` needs it."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[object]], *, num_named: int | None = None) -> str:
    """``num_named`` columns stand to the left and all others to the right, as numbers do; ``None``: all to the left."""
    num_left = len(head) if num_named is None else num_named
    marks = ["---"] * num_left + ["---:"] * (len(head) - num_left)
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in (head, marks, *rows))

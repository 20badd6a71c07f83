"""What was found, for people and for machines."""

from collections.abc import Sequence
from typing import Any

from anaphora.explain.prompts import Comparison, Group
from anaphora.report.tables import Table


def groups_table(groups: Sequence[Group], num_requests: int) -> Table:
    """One row for each place and cause at which requests part."""
    rows = tuple(
        (
            one.path,
            one.cause,
            str(len(one.lines)),
            f"{one.example.divergence.at:,}",
            f"{one.num_lost / one.num_chars * 100 if one.num_chars else 0:.1f}",
        )
        for one in groups
    )
    columns = ("<where", "<why", "requests", "at character", "% after it")
    note = (
        f"{num_requests} requests, each but the first compared with the earlier one that it shares most with.\n"
        "What comes after the first difference is computed anew, however much of it is the same."
    )
    return Table("Where prompts part", columns, rows, note)


def advice(groups: Sequence[Group]) -> list[tuple[str, str, str]]:
    """For each place that need not differ: what it is, what stands there in two requests, and the cure."""
    said = []
    for one in groups:
        if not one.is_natural:
            example = one.example
            earlier, later = (" ".join(window.split()) for window in example.divergence.windows)
            parting = f"{len(one.lines)} requests part" if len(one.lines) > 1 else "1 request parts"
            what = f"{one.cause} in {one.path}: {parting} there"
            shown = f"line {example.earlier_line}: …{earlier}…\nline {example.line}: …{later}…"
            said.append((what, shown, one.cure))
    return said


def as_json(comparisons: Sequence[Comparison], groups: Sequence[Group], num_requests: int) -> dict[str, Any]:
    """Everything, with the windows of every comparison."""
    return {
        "num_requests": num_requests,
        "comparisons": [
            {
                "line": one.line,
                "earlier_line": one.earlier_line,
                "path": one.divergence.path,
                "at_char": one.divergence.at,
                "num_shared_chars": one.divergence.num_shared,
                "num_chars": one.divergence.num_chars,
                "cause": one.divergence.cause.name,
                "is_natural": one.divergence.cause.is_natural,
                "cure": one.divergence.cause.cure,
                "windows": list(one.divergence.windows),
            }
            for one in comparisons
        ],
        "groups": [
            {
                "path": one.path,
                "cause": one.cause,
                "is_natural": one.is_natural,
                "cure": one.cure,
                "lines": list(one.lines),
                "num_chars_after": one.num_lost,
                "num_chars": one.num_chars,
            }
            for one in groups
        ],
    }

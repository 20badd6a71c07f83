"""The slow end of times, with the number of samples behind it."""

from collections.abc import Mapping, Sequence
from typing import Any

from anaphora.lab.experiments.summary import TAIL
from anaphora.lab.quantiles import least_samples
from anaphora.lab.report.words import ms
from anaphora.report.tables import Table

ARMS = ("off", "on")
Tail = Mapping[str, Any]
"""As :func:`anaphora.lab.experiments.summary.tail` stores it."""


def tails_tables(of: str, rows: Sequence[tuple[str, Mapping[str, Tail]]]) -> tuple[Table, ...]:
    """A row for each named pair of tails, off and on; no table if there are too few answers to tell anything.

    ``of``: what the rows are.
    """
    if all(tails[arm][quantile] is None for _, tails in rows for arm in ARMS for quantile in TAIL):
        return ()
    columns = (of, "n off, on", *(f"{name.upper()} {arm} (ms)" for name in TAIL for arm in ARMS))
    cells = tuple(
        (
            name,
            ", ".join(str(tails[arm]["num_samples"]) for arm in ARMS),
            *(ms(tails[arm][quantile]) for quantile in TAIL for arm in ARMS),
        )
        for name, tails in rows
    )
    needed = ", ".join(f"{name.upper()} {least_samples(fraction)}" for name, fraction in TAIL.items())
    return (Table("The slowest", columns, cells, f"so many answers of an arm it takes to tell: {needed}"),)

"""How an experiment is presented: its question, tables, answer, figures and CSV files, each made from its results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from anaphora.report.tables import Table
from anaphora.traces.records import RequestRecord


@dataclass(frozen=True, slots=True)
class Findings:
    """What is at hand when one experiment is presented: ``found``, its part of the results, and all of them."""

    found: Mapping[str, Any]
    results: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FigureOf:
    """A figure with the sentence below it. ``draw`` gets the experiment's own records; ``wanted``: whether a run has
    the data."""

    caption: str
    draw: Callable[[Findings, Sequence[RequestRecord]], Figure]
    wanted: Callable[[Findings], bool] = lambda findings: True


@dataclass(frozen=True, slots=True)
class CsvOf:
    """A file of comma-separated values: ``rows`` have ``columns`` as keys."""

    columns: tuple[str, ...]
    rows: Callable[[Findings], Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Presentation:
    """One experiment in a report. ``figures`` by the stem of their files, ``csv`` by the name of the file.

    ``answer``: what was found, in a sentence or two that needs no table; empty if nothing can be said.
    """

    question: str
    tables: Callable[[Findings], Sequence[Table]]
    answer: Callable[[Findings], str]
    figures: Mapping[str, FigureOf]
    csv: Mapping[str, CsvOf]

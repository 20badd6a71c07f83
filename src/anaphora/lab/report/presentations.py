"""How each experiment is presented, and what a report says of all of them together."""

from collections.abc import Iterator, Mapping
from typing import Any

from anaphora.lab.report import costs, gradient, prompts, scenarios, switch
from anaphora.lab.report.base import FigureOf, Findings, Presentation
from anaphora.lab.report.bills import money_tables
from anaphora.report.tables import Table

PRESENTATIONS: Mapping[str, Presentation] = {
    "switch": switch.PRESENTATION,
    "gradient": gradient.PRESENTATION,
    "costs": costs.PRESENTATION,
    "scenarios": scenarios.PRESENTATION,
    "prompts": prompts.PRESENTATION,
}


def presented(results: Mapping[str, Any]) -> Iterator[tuple[str, Presentation, Findings]]:
    """The experiments of a run, in reading order: name, how it is presented, what it found."""
    experiments = results["experiments"]
    for name, presentation in PRESENTATIONS.items():
        if name in experiments:
            yield name, presentation, Findings(experiments[name], results)


def tables_of(results: Mapping[str, Any]) -> list[Table]:
    """Every table of a run."""
    own = [table for _, presentation, findings in presented(results) for table in presentation.tables(findings)]
    return [*own, *money_tables(results)]


def figures_of(results: Mapping[str, Any]) -> dict[str, tuple[str, FigureOf, Findings]]:
    """By the stem of its files: every figure for which a run has the data, with its experiment's name and findings."""
    return {
        stem: (name, figure, findings)
        for name, presentation, findings in presented(results)
        for stem, figure in presentation.figures.items()
        if figure.wanted(findings)
    }


def answer(results: Mapping[str, Any]) -> str:
    """What the run found, in one sentence or two for each experiment."""
    parts = [presentation.answer(findings) for _, presentation, findings in presented(results)]
    return " ".join(part for part in parts if part) or "Nothing was measured."

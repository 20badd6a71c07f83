"""The figures of a simulation. Markers are measurements; a line is drawn where every point of it was computed."""

from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.figure import Figure

from anaphora.report.figures import styled
from anaphora.sim.report.figures.hit_rate import hit_rates
from anaphora.sim.report.figures.ledger import ledgers
from anaphora.sim.report.figures.reuse import reuse
from anaphora.sim.report.figures.working_set import working_sets
from anaphora.sim.report.timing import is_timed
from anaphora.sim.report.ttft_figure import draw_ttft

FIGURES: Mapping[str, Callable[[Mapping[str, Any]], Figure]] = {
    "figure-hit-rate": hit_rates,
    "figure-ledger": ledgers,
    "figure-ttft": draw_ttft,
    "figure-reuse": reuse,
    "figure-working-set": working_sets,
}
"""In the order of the page."""


def draw(name: str, results: Mapping[str, Any]) -> Figure:
    """The figure of that name."""
    with styled():
        return FIGURES[name](results)


def names_of(results: Mapping[str, Any]) -> list[str]:
    """The figures that there is something to show in."""
    return [name for name in FIGURES if name != "figure-ttft" or is_timed(results)]

"""What the figures of all experiments share."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anaphora.lab.options import STARTED_FOR_THE_RUN
from anaphora.lab.report.words import model_name
from anaphora.report.colours import OFF, ON

COLOURS = {"off": OFF, "on": ON}


def titled_axes(title: str, results: Mapping[str, Any]) -> tuple[Figure, Axes]:
    """One picture below a title and the line that says who was measured."""
    figure = Figure(figsize=(7.0, 4.4), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, pad=22)
    axes.text(0, 1.025, subtitle(results), transform=axes.transAxes, fontsize=8.5)
    return figure, axes


def subtitle(results: Mapping[str, Any]) -> str:
    """The model and, where its server was started for the run and so ran on the client's machine, the machine."""
    environment, target = results["environment"], results["target"]
    is_here = target.get("base_url") == STARTED_FOR_THE_RUN
    place = f"{environment['num_cpus']} × {environment['processor']}" if is_here else ""
    return " · ".join(part for part in (model_name(results["target"]), place) if part)

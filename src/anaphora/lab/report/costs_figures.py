"""The figures of the cost experiment."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from anaphora.lab.experiments.costs import STAIRCASE
from anaphora.lab.experiments.two_variable import point_of, without_strays
from anaphora.lab.report.base import Findings
from anaphora.lab.report.drawing import subtitle, titled_axes
from anaphora.lab.timings import ttft_ms
from anaphora.lab.token_costs import ALL_TERMS, Point, design
from anaphora.lab.witnesses import prompt_tokens
from anaphora.report.colours import AMBER, GREEN, INK, OFF, ON, PAPER, PINK, SKY
from anaphora.traces.records import RequestRecord

_HUES = (OFF, ON, GREEN, PINK, AMBER, SKY)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def costs(findings: Findings, records: Sequence[RequestRecord]) -> Figure:
    """Times by computed tokens, one line for each cached beginning; beside them the residuals."""
    fit = findings.found["two_variable"]
    figure = Figure(figsize=(9.2, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
    left.set_title("Time to first token by computed and cached tokens", pad=22)
    left.text(0, 1.025, subtitle(findings.results), transform=left.transAxes, fontsize=8.5)
    right.set_title("measured minus formula", fontsize=9.5, fontweight="normal")
    by_group = _points(records)
    fitted = without_strays([point for points in by_group.values() for point in points])
    for number, points in enumerate(by_group.values()):
        colour, marker = _HUES[number % len(_HUES)], _MARKERS[number % len(_MARKERS)]
        strays = [point for point in points if point not in fitted]
        _group(left, right, fit, [point for point in points if point in fitted], colour, marker)
        _plot(left, strays, markersize=5, marker=marker, markerfacecolor="none", color=colour)
    if len(fitted) < sum(map(len, by_group.values())):
        left.plot([], [], "o", markersize=5, markerfacecolor="none", color=INK, label="held up, in no fit")
    left.set_xlabel("computed prompt tokens")
    left.set_ylabel("time to first token (ms)")
    right.set_xlabel("time by the formula (ms)")
    right.set_ylabel("residual (ms)")
    right.axhline(0, color=INK, linewidth=0.8)
    left.set_xlim(left=0)
    left.set_ylim(bottom=0)
    for axes in (left, right):
        axes.xaxis.set_major_locator(MaxNLocator(6 if axes is left else 4))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.yaxis.set_major_formatter("{x:,g}")
    figure.legend(handles=left.get_legend_handles_labels()[0], loc="outside lower left", ncols=3)
    return figure


def _points(records: Sequence[RequestRecord]) -> dict[int, list[Point]]:
    """What was measured, by the length of the cached beginning."""
    by_group: dict[int, list[Point]] = {}
    for record in sorted(records, key=lambda record: record.group):
        if record.label != STAIRCASE and (point := point_of(record, record.label)) is not None:
            by_group.setdefault(record.group, []).append(point)
    return by_group


def _group(left: Axes, right: Axes, fit: dict[str, Any], points: Sequence[Point], colour: str, marker: str) -> None:
    """The requests of one cached beginning, and the formula over what was computed among them."""
    computed = np.array([point.computed_tokens for point in points])
    cached = np.array([point.cached_tokens for point in points])
    typical = float(np.median(cached))
    style: Any = {"color": colour, "marker": marker, "markersize": 5, "markeredgecolor": PAPER, "markeredgewidth": 0.6}
    _plot(left, points, label=f"{typical:,.0f} tokens cached", **style)
    x = np.linspace(computed.min(), computed.max(), 60)
    left.plot(x, _formula(fit, x, typical), color=colour, linewidth=1.2, linestyle=(0, (5, 2.5)), zorder=1.5)
    fitted = _formula(fit, computed, cached)
    right.plot(fitted, [point.ttft_ms for point in points] - fitted, linestyle="none", alpha=0.8, **style)


def _plot(axes: Axes, points: Sequence[Point], **style: Any) -> None:
    axes.plot([p.computed_tokens for p in points], [p.ttft_ms for p in points], linestyle="none", **style)


def _formula(fit: dict[str, Any], computed: Any, cached: Any) -> Any:
    columns = dict(
        zip(ALL_TERMS, np.moveaxis(design(computed, np.broadcast_to(cached, computed.shape)), -1, 0), strict=True)
    )
    return sum(term["value"] * columns[name] for name, term in fit["terms"].items())


def staircase(findings: Findings, records: Sequence[RequestRecord]) -> Figure:
    """Every request, the medians, and a line where the cached count jumps."""
    rows = [row for row in findings.found["staircase"]["rows"] if row["ttft_ms"] is not None]
    figure, axes = titled_axes("Time to first token where cached blocks end", findings.results)
    singles = [
        (length, time)
        for record in records
        if record.label == STAIRCASE and record.phase == "measured"
        if (length := prompt_tokens(record)) is not None and (time := ttft_ms(record)) is not None
    ]
    axes.plot(*zip(*singles, strict=True), "_", color=ON, markersize=12, alpha=0.5, label="single requests")
    lengths, times = [row["prompt_tokens"] for row in rows], [row["ttft_ms"] for row in rows]
    axes.plot(lengths, times, "o-", color=ON, markeredgecolor=PAPER, markersize=6, linewidth=1.2, label="medians")
    label: str | None = "one step more is cached from here on"
    for before, row in pairwise(rows):
        if before["cached_tokens"] != row["cached_tokens"]:
            middle = (before["prompt_tokens"] + row["prompt_tokens"]) / 2
            axes.axvline(middle, color=OFF, linewidth=1, linestyle=(0, (4, 3)), label=label)
            label = None
    axes.set_xlabel("prompt tokens")
    axes.set_ylabel("time to first token (ms)")
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(7, integer=True))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    figure.legend(handles=axes.get_legend_handles_labels()[0], loc="outside lower left", ncols=3)
    return figure

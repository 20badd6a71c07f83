"""The figures of the gradient experiment: raw points always visible, lines only where something was measured."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from anaphora.lab.report.base import Findings
from anaphora.lab.report.drawing import COLOURS, subtitle, titled_axes
from anaphora.lab.report.words import percent
from anaphora.lab.timings import ttft_ms
from anaphora.lab.witnesses import prompt_tokens
from anaphora.report.colours import INK, ON, PAPER
from anaphora.traces.records import RequestRecord


def ttft_against_tokens(findings: Findings, records: Sequence[RequestRecord]) -> Figure:
    """Both arms on one scale, and beside them the on arm on its own, where its slope can be seen."""
    gradient = findings.found
    figure = Figure(figsize=(9.2, 4.6), layout="constrained")
    both, alone = figure.subplots(1, 2, width_ratios=(1.9, 1))
    both.set_title("(a) Time to first token against prompt length", pad=22)
    both.text(0, 1.025, subtitle(findings.results), transform=both.transAxes, fontsize=8.5)
    alone.set_title("caching on, its own scale", fontsize=9.5, fontweight="normal")
    for arm in ("off", "on"):
        _arm_against_tokens(both, gradient, records, arm)
    _arm_against_tokens(alone, gradient, records, "on")
    firsts = [
        (n, t) for r in records if r.phase == "first" and (n := prompt_tokens(r)) and (t := ttft_ms(r)) is not None
    ]
    both.plot(
        *zip(*firsts, strict=True) if firsts else ([], []),
        linestyle="none",
        marker="D",
        markersize=9,
        markerfacecolor="none",
        markeredgecolor=ON,
        label="caching on: the request that fills the cache",
    )
    both.set_ylabel("time to first token (ms)")
    for axes in (both, alone):
        axes.set_xlabel("prompt tokens")
        axes.set_ylim(bottom=0)
        axes.set_xlim(0, 1.08 * max((row["prompt_tokens"] or 0 for row in gradient["rows"]), default=0) or None)
        axes.xaxis.set_major_locator(MaxNLocator(4 if axes is alone else 7))
        axes.yaxis.set_major_formatter("{x:,g}")  # ticks may be 2.5 apart
        axes.xaxis.set_major_formatter("{x:,.0f}")
    handles = sorted(both.get_legend_handles_labels()[0], key=lambda handle: str(handle.get_label()).startswith("fit"))
    figure.legend(handles=handles, loc="outside lower left", ncols=2)
    return figure


def _arm_against_tokens(axes: Axes, gradient: Mapping[str, Any], records: Sequence[RequestRecord], arm: str) -> None:
    """Every request as a dash, the medians as markers, the fitted line over the measured lengths only."""
    colour = COLOURS[arm]
    points = [
        (n, t)
        for r in records
        if r.arm == arm and r.phase == "measured" and (n := prompt_tokens(r)) and (t := ttft_ms(r)) is not None
    ]
    axes.plot(
        *zip(*points, strict=True) if points else ([], []),
        "_",
        color=colour,
        markersize=17,
        markeredgewidth=0.9,
        alpha=0.6,
    )
    rows = [row for row in gradient["rows"] if row[f"{arm}_ttft_ms"] is not None]
    axes.plot(
        [row["prompt_tokens"] for row in rows],
        [row[f"{arm}_ttft_ms"] for row in rows],
        "s" if arm == "off" else "o",
        color=colour,
        markeredgecolor=PAPER,
        markersize=6.5,
        label=f"caching {arm}: medians; each dash is one of {_sizes(rows, arm)} requests",
    )
    line = gradient["fit"][arm]
    if line is not None:
        x = np.array([rows[0]["prompt_tokens"], rows[-1]["prompt_tokens"]])
        y = line["intercept_ms"] + line["slope_ms_per_ktoken"] * x / 1000
        axes.plot(x, y, linestyle=(0, (5, 2.5)), color=colour, linewidth=1.3, zorder=1.5, label=_equation(line))


def _equation(line: Mapping[str, Any]) -> str:
    slope, intercept = line["slope_ms_per_ktoken"], line["intercept_ms"]
    quality = "" if line["r2"] is None else f"   (R² = {line['r2']:.4f})"
    sign = "+" if intercept >= 0 else "−"
    text = f"fit: {slope:,.1f} ms per 1000 tokens {sign} {abs(intercept):,.1f} ms{quality}"
    return text.replace("-", "−")


def reduction_against_tokens(findings: Findings, records: Sequence[RequestRecord]) -> Figure:
    """What caching takes off, by prompt length."""
    rows = [row for row in findings.found["rows"] if row["reduction_percent"] is not None]
    figure, axes = titled_axes("(b) What prefix caching takes off the time to first token", findings.results)
    x, y = [row["prompt_tokens"] for row in rows], [row["reduction_percent"] for row in rows]
    intervals = [row["reduction_percent_interval"] or {} for row in rows]
    below = [max(0.0, value - i.get("low", value)) for value, i in zip(y, intervals, strict=True)]
    above = [max(0.0, i.get("high", value) - value) for value, i in zip(y, intervals, strict=True)]
    axes.errorbar(x, y, yerr=(below, above), fmt="none", ecolor=ON, elinewidth=1.1, capsize=4, alpha=0.75)
    axes.plot(x, y, marker="o", markersize=6.5, color=ON, markeredgecolor=PAPER, linewidth=1.6)
    for tokens, value in zip(x, y, strict=True):
        axes.annotate(
            percent(value), (tokens, value), xytext=(7, -13), textcoords="offset points", ha="left", fontsize=8.5
        )
    axes.set_xlabel("prompt tokens")
    axes.set_ylabel("reduction of the median TTFT (%)")
    lowest = min((value - b for value, b in zip(y, below, strict=True)), default=0.0)
    axes.set_ylim(20 * np.floor((lowest - 10) / 20) if lowest > 0 else 1.15 * lowest - 5, 103)
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_xlim(0, 1.1 * max(x, default=1))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    return figure


def _sizes(rows: Sequence[Mapping[str, Any]], arm: str) -> str:
    sizes = sorted({row[f"{arm}_num_requests"] - row[f"{arm}_num_failed"] for row in rows})
    return "–".join(str(size) for size in dict.fromkeys((sizes[0], sizes[-1]))) if sizes else "0"

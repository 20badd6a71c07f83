"""The figures of a load run: every level that was reached in both arms, with intervals; nothing drawn beyond them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from anaphora.lab.load.levels import level_name
from anaphora.lab.load.report.words import level_axis, limits_text
from anaphora.lab.report.drawing import COLOURS, subtitle
from anaphora.report.colours import PAPER
from anaphora.report.figures import styled

_MARKERS = {"off": "s", "on": "o"}
Samples = Mapping[tuple[float, str], Sequence[float]]
"""Times to first token by level and arm, in milliseconds."""

CAPTIONS = {
    "figure-latency": "Medians with 95% intervals, and the 90th percentile where the sample gives one.",
    "figure-throughput": "Output tokens that arrived per second of each level's window.",
    "figure-goodput": "Share of requests within every limit, with Wilson's 95% interval; failed requests are not.",
    "figure-distribution": "Every measured request: the share whose first token had come after so long.",
}


def figure_names(results: Mapping[str, Any]) -> list[str]:
    """The figures for which a run has the data."""
    load = results["load"]
    reached = {row["level"] for row in load["rows"] for arm in COLOURS if row[arm]["refused"] is None}
    if not reached:
        return []
    names = ["figure-latency", "figure-throughput"] if len(reached) > 1 else []
    if load["slo"] and len(reached) > 1:
        names.append("figure-goodput")
    return [*names, "figure-distribution"]


def draw(name: str, results: Mapping[str, Any], samples: Samples) -> Figure:
    """The figure of that name."""
    with styled():
        return _DRAWN[name](results, samples)


def _latency(results: Mapping[str, Any], samples: Samples) -> Figure:
    figure = Figure(figsize=(9.2, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes, time, title in ((left, "ttft_ms", "Time to first token (ms)"), (right, "tpot_ms", "TPOT (ms per token)")):
        for arm in COLOURS:
            _quantiles(axes, results["load"], time, arm)
        axes.set_title(title)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        _levels(axes, results["load"])
    left.set_yscale("log")
    left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    _whole_decades(left)
    right.set_ylim(bottom=0)
    figure.suptitle(subtitle(results), fontsize=8.5, x=0.01, ha="left")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _quantiles(axes: Axes, load: Mapping[str, Any], time: str, arm: str) -> None:
    rows = [(row["level"], row[arm][time]) for row in load["rows"] if row[arm]["refused"] is None]
    middle = [(level, found["p50"]) for level, found in rows if found["p50"] is not None]
    x, y = [level for level, _ in middle], [found["value"] for _, found in middle]
    low = [found["value"] - (found["value"] if found["low"] is None else found["low"]) for _, found in middle]
    high = [(found["value"] if found["high"] is None else found["high"]) - found["value"] for _, found in middle]
    colour = COLOURS[arm]
    axes.errorbar(x, y, yerr=(low, high), fmt="none", ecolor=colour, elinewidth=1.1, capsize=3, alpha=0.8)
    axes.plot(
        x, y, marker=_MARKERS[arm], color=colour, markeredgecolor=PAPER, linewidth=1.6, label=f"caching {arm}: median"
    )
    upper = [(level, found["p90"]["value"]) for level, found in rows if found["p90"] is not None]
    axes.plot(
        [level for level, _ in upper],
        [value for _, value in upper],
        marker=_MARKERS[arm],
        markersize=4,
        markerfacecolor="none",
        color=colour,
        linestyle=(0, (4, 2)),
        linewidth=1,
        label=f"caching {arm}: P90",
    )


def _whole_decades(axes: Axes) -> None:
    """A logarithmic axis with labels, however flat the lines."""
    low, high = axes.get_ylim()
    axes.set_ylim(10 ** np.floor(np.log10(low)), 10 ** np.ceil(np.log10(high)))


def _throughput(results: Mapping[str, Any], samples: Samples) -> Figure:
    figure, axes = _single("Output tokens per second", results)
    for arm in COLOURS:
        rows = [row for row in results["load"]["rows"] if row[arm]["refused"] is None]
        x, y = [row["level"] for row in rows], [row[arm]["output_tokens_per_s"] for row in rows]
        axes.plot(
            x, y, marker=_MARKERS[arm], color=COLOURS[arm], markeredgecolor=PAPER, linewidth=1.6, label=f"caching {arm}"
        )
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,g}")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def _goodput(results: Mapping[str, Any], samples: Samples) -> Figure:
    figure, axes = _single(f"Requests within {limits_text(results['load']['slo'])} (%)", results)
    for arm in COLOURS:
        rows = [row for row in results["load"]["rows"] if row[arm]["refused"] is None]
        x = [row["level"] for row in rows]
        y = [100 * row[arm]["goodput"]["share"] for row in rows]
        bounds = [row[arm]["goodput"]["share_interval"] for row in rows]
        below = [max(0.0, value - 100 * bound["low"]) for value, bound in zip(y, bounds, strict=True)]
        above = [max(0.0, 100 * bound["high"] - value) for value, bound in zip(y, bounds, strict=True)]
        colour = COLOURS[arm]
        axes.errorbar(x, y, yerr=(below, above), fmt="none", ecolor=colour, elinewidth=1.1, capsize=4, alpha=0.8)
        axes.plot(
            x, y, marker=_MARKERS[arm], color=colour, markeredgecolor=PAPER, linewidth=1.6, label=f"caching {arm}"
        )
    axes.set_ylim(-3, 103)
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def _distribution(results: Mapping[str, Any], samples: Samples) -> Figure:
    """At the highest level that has samples in both arms, or in one."""
    load = results["load"]
    known = {row["level"]: [arm for arm in COLOURS if samples.get((row["level"], arm))] for row in load["rows"]}
    level = max(known, key=lambda one: (len(known[one]), one))
    title = f"TTFT at {level_name(load['loop'], level)}: share of requests (%)"
    figure, axes = _single(title, results, levels=False)
    for arm in known[level]:
        values = np.sort(samples[level, arm])
        share = 100 * np.arange(1, len(values) + 1) / len(values)
        axes.step(
            values,
            share,
            where="post",
            color=COLOURS[arm],
            linewidth=1.6,
            label=f"caching {arm}: {len(values)} requests",
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.set_xlabel("time to first token (ms)")
    axes.set_ylim(0, 103)
    low, high = axes.get_xlim()
    axes.set_xlim(10 ** np.floor(np.log10(low)), 10 ** np.ceil(np.log10(high)))
    figure.legend(loc="outside lower center", ncols=2)
    return figure


_DRAWN: Mapping[str, Callable[[Mapping[str, Any], Samples], Figure]] = {
    "figure-latency": _latency,
    "figure-throughput": _throughput,
    "figure-goodput": _goodput,
    "figure-distribution": _distribution,
}


def _single(title: str, results: Mapping[str, Any], *, levels: bool = True) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.0, 4.4), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, pad=22)
    axes.text(0, 1.025, subtitle(results), transform=axes.transAxes, fontsize=8.5)
    if levels:
        _levels(axes, results["load"])
    return figure, axes


def _levels(axes: Axes, load: Mapping[str, Any]) -> None:
    """The levels on a logarithmic axis, each with its number."""
    levels = [row["level"] for row in load["rows"]]
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(levels))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlim(min(levels) / 1.25, max(levels) * 1.25)
    axes.set_xlabel(level_axis(load["loop"]))

"""The figures of a report: raw points always visible, units on every axis, lines only where something was measured."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from anaphora.lab.report.words import percent
from anaphora.lab.timings import ttft_ms
from anaphora.lab.witnesses import prompt_tokens
from anaphora.report.colours import GRID, INK, OFF, ON, PAPER
from anaphora.report.figures import styled
from anaphora.traces.records import RequestRecord

COLOURS = {"off": OFF, "on": ON}


def draw(name: str, results: Mapping[str, Any], records: Sequence[RequestRecord]) -> Figure:
    """The figure of that name (see :data:`FIGURES`)."""
    with styled():
        return FIGURES[name](results, records)


def figure_names(results: Mapping[str, Any]) -> list[str]:
    """The figures for which a run has the data."""
    wanted = {"switch": ("figure-switch",), "gradient": ("figure-a-ttft", "figure-b-reduction")}
    return [name for experiment, names in wanted.items() if experiment in results["experiments"] for name in names]


def _ttft_against_tokens(results: Mapping[str, Any], records: Sequence[RequestRecord]) -> Figure:
    """Both arms on one scale, and beside them the on arm on its own, where its slope can be seen."""
    gradient = results["experiments"]["gradient"]
    figure = Figure(figsize=(9.2, 4.6), layout="constrained")
    both, alone = figure.subplots(1, 2, width_ratios=(1.9, 1))
    both.set_title("(a) Time to first token against prompt length", pad=22)
    both.text(0, 1.025, _subtitle(results), transform=both.transAxes, fontsize=8.5)
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


def _reduction_against_tokens(results: Mapping[str, Any], records: Sequence[RequestRecord]) -> Figure:
    rows = [row for row in results["experiments"]["gradient"]["rows"] if row["reduction_percent"] is not None]
    figure, axes = _axes("(b) What prefix caching takes off the time to first token", results)
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


def _questions(results: Mapping[str, Any], records: Sequence[RequestRecord]) -> Figure:
    rows = results["experiments"]["switch"]["rows"]
    figure = Figure(figsize=(7.6, 0.36 * len(rows) + 1.7), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, name, title in ((left, "ttft", "Time to first token (ms)"), (right, "e2e", "Whole answer, E2E (ms)")):
        for row in rows:
            _dumbbell(axes, row, name)
        axes.set_title(title)
        axes.set_xlim(left=0)
        axes.grid(axis="y", visible=False)
        axes.xaxis.set_major_formatter("{x:,.0f}")
    left.set_yticks(
        [row["index"] for row in rows],
        [f"question {row['index']}{' (first)' if row['phase'] == 'first' else ''}" for row in rows],
    )
    left.invert_yaxis()
    handles = [
        *(
            right.plot([], [], "o", color=COLOURS[arm], markersize=6.5, label=f"caching {arm}")[0]
            for arm in ("off", "on")
        ),
        right.plot([], [], "o", color=INK, markersize=6.5, markerfacecolor="none", label="first request, in no median")[
            0
        ],
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    tokens = results["run"]["settings"]["prefix_tokens"]
    title = f"{len(rows)} questions behind one system prompt of {tokens:,} tokens · {_subtitle(results)}"
    figure.suptitle(title, fontsize=8.5, x=0.01, ha="left")
    return figure


FIGURES: Mapping[str, Callable[[Mapping[str, Any], Sequence[RequestRecord]], Figure]] = {
    "figure-switch": _questions,
    "figure-a-ttft": lambda results, records: _ttft_against_tokens(results, _of("gradient", records)),
    "figure-b-reduction": lambda results, records: _reduction_against_tokens(results, _of("gradient", records)),
}


def _of(experiment: str, records: Sequence[RequestRecord]) -> list[RequestRecord]:
    return [record for record in records if record.experiment == experiment]


def _axes(title: str, results: Mapping[str, Any]) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.0, 4.4), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, pad=22)
    axes.text(0, 1.025, _subtitle(results), transform=axes.transAxes, fontsize=8.5)
    return figure, axes


def _subtitle(results: Mapping[str, Any]) -> str:
    environment = results["environment"]
    place = f"{environment['num_cpus']} × {environment['processor']}" if results["target"]["kind"] == "ours" else ""
    return " · ".join(part for part in (str(results["target"]["model"]), place) if part)


def _dumbbell(axes: Axes, row: Mapping[str, Any], name: str) -> None:
    values = {arm: row[f"{arm}_{name}_ms"] for arm in ("off", "on")}
    known = [value for value in values.values() if value is not None]
    if len(known) == 2:
        axes.plot(known, [row["index"]] * 2, color=GRID, linewidth=2.2, zorder=1)
    for arm, value in values.items():
        if value is not None:
            face = "none" if row["phase"] == "first" else COLOURS[arm]
            axes.plot(value, row["index"], "o", markersize=6.5, markerfacecolor=face, markeredgecolor=COLOURS[arm])


def _sizes(rows: Sequence[Mapping[str, Any]], arm: str) -> str:
    sizes = sorted({row[f"{arm}_num_requests"] - row[f"{arm}_num_failed"] for row in rows})
    return "–".join(str(size) for size in dict.fromkeys((sizes[0], sizes[-1]))) if sizes else "0"

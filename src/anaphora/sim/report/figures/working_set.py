"""How many different blocks a trace uses, within some time and in all."""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from anaphora.report.colours import AMBER, INK, OFF
from anaphora.sim.report.words import duration, thousands


def working_sets(results: Mapping[str, Any]) -> Figure:
    """A line for each window, and one for all blocks so far."""
    found, runs = results["reuse"]["working_set"], results["runs"]
    in_seconds = found["clock"] == "seconds"
    figure = Figure(figsize=(8.2, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.step(
        found["at"], found["distinct_so_far"], where="post", color=INK, linewidth=1.6, label="since the beginning"
    )
    for window, colour in zip(reversed(found["windows"]), (OFF, AMBER), strict=False):
        length = duration(window["length"]) if in_seconds else f"{window['length']:,} requests"
        label = f"in the last {length}"
        axes.step(found["at"], window["blocks"], where="post", color=colour, linewidth=1.3, label=label)
    axes.set_title("Different blocks in use")
    axes.set_ylabel(f"blocks of {runs[0]['block_size']} tokens")
    axes.set_xlabel("time since the first request" if in_seconds else "requests")
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, found["at"][-1] or 1)
    axes.yaxis.set_major_formatter(FuncFormatter(thousands))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: duration(x) if in_seconds else f"{x:,.0f}"))
    if in_seconds:
        axes.set_xticks(_ticks(found["at"][-1]))
    axes.legend(loc="upper left")
    return figure


def _ticks(length_s: float) -> list[float]:
    """Four to eight round times."""
    for step in (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 2 * 3600, 6 * 3600, 12 * 3600, 24 * 3600):
        if length_s / step <= 8:
            return [step * number for number in range(int(length_s / step) + 1)]
    days = int(length_s // (8 * 24 * 3600)) + 1
    return [24 * 3600.0 * day for day in range(0, int(length_s // (24 * 3600)) + 1, days)]

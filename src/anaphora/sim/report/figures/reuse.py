"""How soon blocks are used again: counted in other blocks, and in time."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from anaphora.report.colours import INK, OFF, ON
from anaphora.sim.report.words import duration, thousands

_DECADES_APART = 1000
_TICKS_S = (1e-3, 1e-2, 0.1, 1, 3, 10, 30, 60, 300, 600, 1800, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600)


def reuse(results: Mapping[str, Any]) -> Figure:
    """Distributions of both, on logarithmic scales."""
    figure = Figure(figsize=(9.2, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    found = results["reuse"]
    left.set_title("Reuse distance")
    left.set_xlabel("other blocks used meanwhile")
    left.set_ylabel("share of all reuses of a block (%)")
    left.set_ylim(0, 100)
    _curve(left, found["distance_blocks"], OFF, lambda value: f"{thousands(value)} blocks")
    left.xaxis.set_major_formatter(FuncFormatter(thousands))
    right.set_title("Time to reuse")
    right.set_xlabel("since the last use")
    times = found["time_to_reuse_s"]
    _curve(right, times, ON, duration)
    if times is not None:
        low, high = right.get_xlim()
        right.xaxis.set_major_locator(FixedLocator([tick for tick in _TICKS_S if low <= tick <= high]))
        right.xaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
    return figure


def _curve(axes: Axes, found: Mapping[str, Any] | None, colour: str, say: Any) -> None:
    """A step for each size looked at; its median marked. Sizes of 0 are where the curve begins."""
    points = [] if found is None else [p for p in zip(found["at_most"], found["share"], strict=True) if p[0] > 0]
    if found is None or len(points) < 2:
        words = "the trace does not tell" if found is None else f"always {say(found['median'])}"
        axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center")
        return
    x, y = [size for size, _ in points], [100 * share for _, share in points]
    axes.plot(x, y, color=colour, linewidth=1.8, drawstyle="steps-post")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1,) if x[-1] > _DECADES_APART * x[0] else (1, 2, 5)))
    axes.xaxis.set_minor_locator(NullLocator())
    for name, share in (("median", 50), ("p90", 90)):
        value = found[name]
        if value > 0:
            axes.plot([x[0], value, value], [share, share, 0], color=INK, linewidth=0.7, linestyle=(0, (2, 2)))
            axes.annotate(
                f"{'half' if name == 'median' else '90%'} within {say(value)}",
                (x[0], share),
                xytext=(4, 3),
                textcoords="offset points",
                fontsize=8.5,
            )

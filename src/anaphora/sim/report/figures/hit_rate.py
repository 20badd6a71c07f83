"""Token hit rate against capacity, for every policy, with the optimum as a bound."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from anaphora.report.colours import AMBER, GREEN, GREY, INK, OFF, ON, PAPER, PINK, SKY
from anaphora.sim.report.words import thousands

Run = Mapping[str, Any]


class _Look(NamedTuple):
    marker: str
    colour: str
    size: float = 6.5


_LOOKS = {
    "default": _Look("o", ON, 7.5),
    "return-rate": _Look("h", ON, 7.5),
    "lru": _Look("s", OFF),
    "belady": _Look("v", INK, 7.5),
    "fifo": _Look("<", SKY),
    "lfu": _Look("D", PINK, 5.5),
    "slru": _Look("^", GREEN),
    "s3fifo": _Look("P", AMBER),
}
_LINE = "lru, all capacities"
_SIDE_BY_SIDE = 1.035
_IN_PLACE = ("lru", "belady")
_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 40, 100, 200)
_OTHER_LOOKS = (_Look("X", GREY), _Look(">", GREEN), _Look("p", PINK), _Look("h", SKY), _Look("*", AMBER, 8))


def hit_rates(results: Mapping[str, Any]) -> Figure:
    """A marker a run; LRU as a line too, which reuse distances give at every capacity."""
    figure = Figure(figsize=(8.2, 4.8), layout="constrained")
    axes = figure.add_subplot()
    runs, lru = results["runs"], results["reuse"]["lru"]
    policies = list(dict.fromkeys(run["policy"] for run in runs))
    bounded = [run["capacity_blocks"] for run in runs if run["capacity_blocks"] is not None]
    if lru["capacity_blocks"]:
        rates = [100 * rate for rate in lru["token_hit_rate"]]
        axes.plot(lru["capacity_blocks"], rates, color=OFF, linewidth=1.1, drawstyle="steps-post", label=_LINE)
    for policy, look, shift in zip(policies, looks_of(policies), _shifts(policies), strict=True):
        _markers(axes, [run for run in runs if run["policy"] == policy], policy, look, shift)
    _ceiling(axes, results)
    axes.set_xscale("log")
    axes.set_xlim(*_limits(bounded or lru["capacity_blocks"]))
    axes.set_ylim(0, 1.12 * max([*(100 * run["token_hit_rate"] for run in runs), *_rates_within(axes, lru), 1.0]))
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(thousands))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_title("Prompt tokens served from the cache, by its size", pad=34)
    axes.set_xlabel(f"capacity, blocks of {runs[0]['block_size']} tokens")
    axes.set_ylabel("token hit rate, engine's rule (%)")
    _shares_above(axes, results["trace"]["distinct_blocks"])
    figure.legend(loc="outside lower center", ncols=min(6, len(policies) + 1))
    return figure


def looks_of(policies: Sequence[str]) -> list[_Look]:
    """A look for each policy, the same in every report for those that are known."""
    others = [policy for policy in policies if policy not in _LOOKS]
    return [_LOOKS.get(policy) or _OTHER_LOOKS[others.index(policy) % len(_OTHER_LOOKS)] for policy in policies]


def _shifts(policies: Sequence[str]) -> list[float]:
    """Factors that set the markers of one capacity side by side."""
    moved = [policy for policy in policies if policy not in _IN_PLACE]
    steps = {policy: (number // 2 + 1) * (-1) ** number for number, policy in enumerate(moved)}
    return [_SIDE_BY_SIDE ** steps.get(policy, 0) for policy in policies]


def _markers(axes: Axes, runs: Sequence[Run], policy: str, look: _Look, shift: float) -> None:
    """Where bounded; faint dots lead the eye. Bars: the expected error of a sample."""
    points = sorted((run for run in runs if run["capacity_blocks"] is not None), key=lambda run: run["capacity_blocks"])
    x = [run["capacity_blocks"] * shift for run in points]
    y = [100 * run["token_hit_rate"] for run in points]
    errors = [100 * (run.get("token_hit_rate_error") or 0.0) for run in points]
    if any(errors):
        axes.errorbar(x, y, yerr=errors, fmt="none", ecolor=look.colour, elinewidth=1, capsize=3)
    if policy != "lru":
        axes.plot(x, y, color=look.colour, linewidth=0.8, linestyle=(0, (1, 3)))
    axes.plot(
        x,
        y,
        look.marker,
        color=look.colour,
        markersize=look.size,
        markeredgecolor=PAPER,
        markeredgewidth=0.6,
        label="belady, the bound" if policy == "belady" else policy,
    )


def _ceiling(axes: Axes, results: Mapping[str, Any]) -> None:
    """What no cache can exceed, as all repeats are served."""
    rates = results["reuse"]["lru"]["token_hit_rate"]
    if not rates:
        return
    axes.axhline(100 * rates[-1], color=INK, linewidth=0.9, linestyle=(0, (1, 2)))
    axes.annotate(
        f"without bounds: {100 * rates[-1]:.1f}%",
        (0.005, 100 * rates[-1]),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        fontsize=8.5,
    )


def _limits(sizes: Sequence[int]) -> tuple[float, float]:
    return (0.75 * min(sizes), 1.35 * max(sizes)) if sizes else (1, 10)


def _rates_within(axes: Axes, lru: Mapping[str, Any]) -> list[float]:
    left, right = axes.get_xlim()
    pairs = zip(lru["capacity_blocks"], lru["token_hit_rate"], strict=True)
    return [100 * rate for size, rate in pairs if left <= size <= right]


def _shares_above(axes: Axes, distinct_blocks: int) -> None:
    """The same sizes as shares of all distinct blocks."""

    def share(size: Any) -> Any:
        return 100 * size / distinct_blocks

    def size(share: Any) -> Any:
        return share * distinct_blocks / 100

    above = axes.secondary_xaxis("top", functions=(share, size))
    above.set_xlabel("% of the trace's distinct blocks", fontsize=8.5)
    above.xaxis.set_major_locator(FixedLocator(_SHARES))
    above.xaxis.set_minor_locator(NullLocator())
    above.xaxis.set_major_formatter("{x:g}")
    above.tick_params(labelsize=8.5)

"""Where the prompt tokens went: the ledger of every run as a stacked bar."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anaphora.report.colours import AMBER, GREEN, GREY, GRID, INK, OFF, ON, PAPER, PINK, SKY, YELLOW
from anaphora.sim.report.labels import capacity
from anaphora.sim.report.tables import reasons_of

_COLOURS = {
    "reused_device": OFF,
    "reused_host": SKY,
    "reused_disk": GREEN,
    "last_token": YELLOW,
    "in_flight": INK,
    "evicted": ON,
    "isolated": GREEN,
    "diverged": PINK,
    "new": GREY,
    "tail": GRID,
    "bypassed": AMBER,
}
"""By class, in the order along a bar: what was served, what a cache could have served, what none could."""
_ON_DARK = {"reused_device", "evicted", "in_flight"}
_LEAST_LABELLED = 7.0
_BAR, _MARGIN, _TITLE = 0.24, 1.1, 0.45


def ledgers(results: Mapping[str, Any]) -> Figure:
    """A panel a policy, in two columns, and in it a bar a capacity; what fills little of a bar has no number on it."""
    runs, reasons = results["runs"], sorted(reasons_of(results), key=list(_COLOURS).index)
    policies = list(dict.fromkeys(run["policy"] for run in runs))
    most = max(sum(run["policy"] == policy for run in runs) for policy in policies)
    num_columns = min(2, len(policies))
    num_rows = -(-len(policies) // num_columns)
    figure = Figure(figsize=(8.6, _MARGIN + num_rows * (_TITLE + _BAR * most)), layout="constrained")
    panels = figure.subplots(num_rows, num_columns, sharex=True, squeeze=False)
    for panel in panels.flat[len(policies) :]:
        panel.set_visible(False)
    for panel, policy in zip(panels.flat, policies, strict=False):
        _panel(panel, [run for run in runs if run["policy"] == policy], reasons, most)
        panel.set_title(policy, fontsize=9.5)
    for panel in panels.flat[max(len(policies) - num_columns, 0) : len(policies)]:
        panel.tick_params(labelbottom=True)
        panel.set_xlabel("% of prompt tokens")
    figure.supylabel("capacity, blocks", fontsize=9.5)
    figure.suptitle("Where the prompt tokens went", x=0.01, ha="left", fontsize=11, fontweight="bold")
    handles, _ = panels[0][0].get_legend_handles_labels()
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(reasons), 7))
    return figure


def _panel(axes: Axes, runs: Sequence[Mapping[str, Any]], reasons: Sequence[str], most: int) -> None:
    places, left = list(range(len(runs))), [0.0] * len(runs)
    for reason in reasons:
        widths = [100 * run["ledger"][reason] / run["prompt_tokens"] for run in runs]
        axes.barh(places, widths, 0.8, left=left, color=_COLOURS[reason], label=reason, edgecolor=PAPER, linewidth=0.4)
        for place, start, width in zip(places, left, widths, strict=True):
            if width >= _LEAST_LABELLED:
                colour = PAPER if reason in _ON_DARK else INK
                centre = start + width / 2
                axes.text(centre, place, f"{width:.1f}", ha="center", va="center_baseline", fontsize=7, color=colour)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_yticks(places, [capacity(run) for run in runs], fontsize=8)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(most - 0.4, -0.6)
    axes.set_xlim(0, 100)
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)

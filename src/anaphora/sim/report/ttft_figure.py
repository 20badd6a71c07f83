"""The figure of a simulation in time."""

from collections.abc import Mapping
from itertools import cycle
from typing import Any

from matplotlib.figure import Figure

from anaphora.sim.report.labels import HUES
from anaphora.sim.report.timing import NO_CACHE, timed_runs

_STYLES = ("-", ":", "-.")
CAPTION = "Share of requests that had their first token within a time; dashed: the same memory without a prefix cache."


def draw_ttft(results: Mapping[str, Any]) -> Figure:
    """A curve a run: which share of the requests had their first token within a time. A colour a capacity."""
    figure = Figure(figsize=(8, 4.4), layout="constrained")
    axes = figure.add_subplot()
    runs = list(timed_runs(results))
    sizes = list(dict.fromkeys(size for _, size, _ in runs))
    policies = dict.fromkeys(policy for policy, _, _ in runs if policy != NO_CACHE)
    styles = dict(zip(policies, cycle(_STYLES), strict=False))
    for policy, size, timing in runs:
        values = timing["ttft_percentiles_ms"]
        hue = HUES[sizes.index(size) % len(HUES)]
        style = styles.get(policy, "--")
        axes.plot([value / 1e3 for value in values], range(len(values)), style, color=hue, label=f"{policy}, {size}")
    axes.set_xscale("log")
    axes.set_title("Time to first token; dashed: without a prefix cache")
    axes.set_xlabel("TTFT, s")
    axes.set_ylabel("% of requests within it")
    axes.set_ylim(0, 100)
    axes.legend(frameon=False)
    return figure

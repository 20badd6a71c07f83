"""The figures of a simulation."""

from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.figure import Figure

from anaphora.report.figures import INK, styled
from anaphora.sim.report.labels import HUES
from anaphora.sim.report.tables import reasons_of
from anaphora.sim.report.timing import is_timed
from anaphora.sim.report.ttft_figure import draw_ttft


def draw(name: str, results: Mapping[str, Any]) -> Figure:
    """The figure of that name (see :data:`FIGURES`)."""
    with styled():
        return FIGURES[name](results)


def _hit_rates(results: Mapping[str, Any]) -> Figure:
    """One line a policy; the unbounded cache as a level."""
    figure = Figure(figsize=(8, 4.4), layout="constrained")
    axes = figure.add_subplot()
    policies = list(dict.fromkeys(run["policy"] for run in results["runs"]))
    for policy, hue in zip(policies, _cycle(len(policies)), strict=True):
        runs = [run for run in results["runs"] if run["policy"] == policy]
        bounded = sorted(
            (run["capacity_blocks"], 100 * run["token_hit_rate"]) for run in runs if run["capacity_blocks"]
        )
        style = "--" if policy == "belady" else "-"
        axes.plot([x for x, _ in bounded], [y for _, y in bounded], style, marker="o", color=hue, label=policy)
    for run in results["runs"]:
        if run["capacity_blocks"] is None:
            axes.axhline(100 * run["token_hit_rate"], color=INK, linewidth=0.8, linestyle=":")
    axes.set_title("Prompt tokens from the cache; dotted: without bounds")
    axes.set_xlabel(f"capacity, blocks of {results['runs'][0]['block_size']} tokens")
    axes.set_ylabel("token hit rate, %")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return figure


def _ledgers(results: Mapping[str, Any]) -> Figure:
    """A bar a run, its tokens by reason."""
    runs = results["runs"]
    figure = Figure(figsize=(8, 1.6 + 0.34 * len(runs)), layout="constrained")
    axes = figure.add_subplot()
    names = [f"{run['policy']}, {run['capacity_blocks'] or 'inf'}" for run in runs]
    places, left = list(range(len(runs))), [0.0] * len(runs)
    reasons = reasons_of(results)
    for reason, hue in zip(reasons, _cycle(len(reasons)), strict=True):
        widths = [100 * run["ledger"][reason] / run["prompt_tokens"] for run in runs]
        axes.barh(places, widths, left=left, color=hue, label=reason)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.set_title("Where the prompt tokens went")
    axes.set_xlabel("% of prompt tokens")
    axes.set_xlim(0, 100)
    figure.legend(ncols=4, loc="outside lower center", frameon=False)
    return figure


def _cycle(count: int) -> list[str]:
    return [HUES[number % len(HUES)] for number in range(count)]


FIGURES: Mapping[str, Callable[[Mapping[str, Any]], Figure]] = {
    "figure-hit-rate": _hit_rates,
    "figure-ledger": _ledgers,
    "figure-ttft": draw_ttft,
}


def names_of(results: Mapping[str, Any]) -> list[str]:
    """The figures that there is something to show in."""
    return [name for name in FIGURES if name != "figure-ttft" or is_timed(results)]

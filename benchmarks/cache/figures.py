"""The figures of ``docs/policies.md`` from kept results.

python -m benchmarks.cache.figures docs/images
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.cache.tables import RESULTS
from matplotlib.figure import Figure

from anaphora.report.figures import save, styled

# Hues that stay apart for every common colour blindness (Okabe and Ito).
HUES = {
    "lru": "#0072b2",
    "return-rate": "#d55e00",
    "belady": "#000000",
    "fifo": "#999999",
    "lfu": "#cc79a7",
    "slru": "#009e73",
    "s3fifo": "#e69f00",
}
MARKERS = {"lru": "s", "return-rate": "o", "belady": "v", "fifo": "x", "lfu": "+", "slru": "^", "s3fifo": "D"}
STRONG = ("lru", "return-rate", "belady")
PANELS = ("conversation, reporting half", "coding sessions, reporting half")


def hit_rates(results: Mapping[str, Any]) -> Figure:
    """Token hit rate against capacity for every policy, a panel for each trace."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    panels = [name for name in PANELS if name in results["sets"]]
    for axes, name in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        found = results["sets"][name]
        rates, shares = found["token_hit_rate"], [100 * share for share in found["shares"]]
        for policy in sorted(rates, key=lambda policy: (policy == "return-rate", policy in STRONG)):  # ours on top
            values = [100 * rate for rate in rates[policy]]
            axes.plot(
                shares,
                values,
                "--" if policy == "belady" else "-",
                color=HUES[policy],
                linewidth=3 if policy == "lru" else 1.6 if policy in STRONG else 1,
                marker=MARKERS[policy],
                markersize=8 if policy == "lru" else 5,
                label=f"{policy}{_NOTES.get(policy, '')}",
            )
        axes.set_xscale("log", base=2)
        axes.set_xticks(shares, [f"{share:g}" for share in shares])
        axes.set_title(name)
        axes.set_xlabel("capacity, % of the working set")
        axes.set_ylabel("token hit rate, %")
    _legend_below(figure)
    return figure


_NOTES = {"return-rate": " (the default)", "belady": " (the bound)"}


def _legend_below(figure: Figure) -> None:
    """One legend for all panels, which are alike but for lines that a panel may lack."""
    lines = {
        str(label): line for axes in figure.axes for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(list(lines.values()), list(lines), loc="outside lower center", ncols=len(lines), frameon=False)


def returns_by_age(results: Mapping[str, Any]) -> Figure:
    """The chance that somebody still comes, by how long nobody has."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    for axes, (name, found) in zip(figure.subplots(1, len(results)), results.items(), strict=True):
        ages = [100 * age for age in found["ages"]]
        for turns, hue in (("first turns", HUES["lru"]), ("later turns", HUES["return-rate"])):
            chances = [100 * share for share in found["later by age"][turns]]
            axes.plot(ages, chances, color=hue, marker="o", markersize=4, label=turns)
        axes.set_xscale("log")
        axes.set_xticks([1, 10, 100], ["1", "10", "100"])
        axes.set_ylim(bottom=0)
        axes.set_title(name)
        axes.set_xlabel("blocks stored since, % of the working set")
        axes.set_ylabel("chance that somebody still returns, %")
    _legend_below(figure)
    return figure


FIGURES = {"policies-hit-rate": (hit_rates, "policies"), "policies-returns": (returns_by_age, "returns")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the figures go, as SVG")
    options = parser.parse_args()
    with TemporaryDirectory() as scratch:
        for name, (draw, kept) in FIGURES.items():
            with styled():
                figure = draw(json.loads((RESULTS / f"{kept}.json").read_text()))
            save(figure, Path(scratch) / name)
            (options.folder / f"{name}.svg").write_bytes((Path(scratch) / f"{name}.svg").read_bytes())


if __name__ == "__main__":
    main()

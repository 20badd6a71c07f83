"""One picture: how many tokens hit against how many words were shared."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from anaphora.lab.probe.asking import Asked
from anaphora.report.colours import GREY, ON
from anaphora.report.figures import styled

NAME = "figure-steps"
CAPTION = (
    "Prompts that part from an earlier one: shared words, and tokens that hit. The dashed line: all that is shared."
)


def steps_figure(log: Sequence[Asked], title: str) -> Figure | None:
    """``None`` where no counts were told."""
    longest = max((asked.num_words for asked in log if asked.num_shared_words is not None), default=0)
    points = [
        (asked.num_shared_words, asked.num_cached_tokens)
        for asked in log
        if asked.num_shared_words is not None and asked.num_cached_tokens is not None and asked.num_words == longest
    ]
    if not points:
        return None
    with styled():
        figure = Figure(figsize=(7.0, 3.8), layout="constrained")
        axes = figure.subplots()
        axes.set_title(title)
        limit = max(shared for shared, _ in points)
        axes.plot([0, limit], [0, limit], color=GREY, linewidth=1, linestyle="--")
        axes.plot(*zip(*sorted(points), strict=True), "o", color=ON, markersize=4)
        axes.set_xlabel("shared words of the prompt")
        axes.set_ylabel("tokens that hit")
    return figure

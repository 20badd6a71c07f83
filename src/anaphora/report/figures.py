"""How figures look, and how they are kept: as files for slides and print, and inside a page."""

import re
import warnings
from contextlib import AbstractContextManager
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from anaphora.report.colours import COLOUR_VARIABLES, GRID, INK, PAPER
from anaphora.report.fonts import families

PNG_DPI = 220
_POINTS_PER_REM = 11.0
_STYLE: Any = {
    "font.family": families(),
    "font.size": 9.5,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.hashsalt": "anaphora",
    "figure.facecolor": PAPER,
}


def styled() -> AbstractContextManager[None]:
    """Figures that are drawn inside look as all figures do."""
    return mpl.rc_context(rc=_STYLE)


def save(figure: Figure, stem: Path) -> None:
    """As PNG for slides and as SVG, with letters as outlines, for print; the same input gives the same bytes."""
    with mpl.rc_context({**_STYLE, "svg.fonttype": "path"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # names of one's own may be in any script
        figure.savefig(stem.with_suffix(".png"), dpi=PNG_DPI, metadata={"Software": None})
        figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None})


def inline_svg(figure: Figure) -> str:
    """For a page: letters as text, no background, without the XML head."""
    output = BytesIO()
    with mpl.rc_context({**_STYLE, "svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the page's reader may have the font
        figure.savefig(output, format="svg", metadata={"Date": None}, transparent=True)
    text = output.getvalue().decode()
    return text[text.index("<svg") :]


def html_figure(name: str, svg: str, caption: str) -> str:
    """An inline figure that takes the page's colours; ids get a prefix so that figures do not borrow each other's."""
    for colour, variable in COLOUR_VARIABLES.items():
        svg = svg.replace(colour, variable)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    natural = re.search(r'width="([\d.]+)pt"', svg)
    limit = f' style="max-width:{float(natural[1]) / _POINTS_PER_REM:.0f}rem"' if natural else ""
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{escape(caption)}"{limit}', 1)
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"

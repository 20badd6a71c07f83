"""The colours of all figures, and what they become on a page that is light or dark."""

from collections.abc import Mapping

# Hues that stay apart for every common colour blindness (Okabe and Ito).
OFF, ON = "#0072b2", "#d55e00"
GREEN, PINK, AMBER, SKY, YELLOW, GREY = "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442", "#9a9fa4"
INK, GRID, PAPER = "#1a1a1a", "#d9d9d9", "#ffffff"
COLOUR_VARIABLES: Mapping[str, str] = {
    OFF: "var(--off)",
    ON: "var(--on)",
    GREEN: "var(--green)",
    PINK: "var(--pink)",
    AMBER: "var(--amber)",
    SKY: "var(--sky)",
    YELLOW: "var(--yellow)",
    GREY: "var(--grey)",
    INK: "var(--ink)",
    GRID: "var(--grid)",
    PAPER: "var(--paper)",
}
"""The page's variable for each colour of a figure: see :data:`anaphora.report.style.STYLE`."""

"""How tables and figures of a simulation name its runs, and in which colours."""

from collections.abc import Mapping
from typing import Any

from anaphora.report.colours import AMBER, GREEN, GREY, INK, OFF, ON, PINK, SKY, YELLOW

HUES = (OFF, ON, GREEN, PINK, AMBER, SKY, YELLOW, GREY, INK)
"""They stay apart for every common colour blindness, and follow light and dark on a page."""


def capacity(run: Mapping[str, Any]) -> str:
    """In blocks, for people."""
    return "inf" if run["capacity_blocks"] is None else f"{run['capacity_blocks']:,}"

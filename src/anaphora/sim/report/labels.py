"""How tables and figures of a simulation name its runs, and in which colours."""

from collections.abc import Mapping
from typing import Any

HUES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442", "#999999", "#000000")
"""They stay apart for every common colour blindness (Okabe and Ito)."""


def capacity(run: Mapping[str, Any]) -> str:
    """In blocks, for people."""
    return "inf" if run["capacity_blocks"] is None else f"{run['capacity_blocks']:,}"

"""Fitted lines as a table."""

from collections.abc import Mapping
from typing import Any

from anaphora.report.tables import Table


def lines_table(gradient: Mapping[str, Any]) -> Table:
    """The fitted lines; ``gradient`` needs ``fit`` and ``slope_reduction_percent`` only."""
    rows = [(name, *_line_cells(line)) for name, line in gradient["fit"].items()]
    columns = ("<arm", "slope (ms per 1000 tokens)", "intercept (ms)", "R²")
    title = "Least squares: TTFT = slope × prompt tokens + intercept"
    return Table(title, columns, tuple(rows), _about_lines(gradient))


def _about_lines(gradient: Mapping[str, Any]) -> str:
    """What the lines say together, what they do not say, and how far they reach."""
    off, on = gradient["fit"]["off"], gradient["fit"]["on"]
    if off is None or on is None:
        return ""
    parts = ["± is the half-width at 95%"]
    reduction = gradient["slope_reduction_percent"]
    if reduction is not None:
        parts.insert(0, f"the slope falls by {reduction:.2f}%".replace("-", "−"))
    one, other = off["intercept_interval"], on["intercept_interval"]
    if one is not None and other is not None and one["low"] <= other["high"] and other["low"] <= one["high"]:
        parts.append("the intercepts cannot be told apart")
    low, high = off["prompt_tokens_range"]
    parts.append(f"nothing is said beyond {low:,.0f} to {high:,.0f} tokens")
    return "; ".join(parts)


def _line_cells(line: Mapping[str, Any] | None) -> tuple[str, ...]:
    if line is None:
        return ("–",) * 3
    cells = (
        f"{line['slope_ms_per_ktoken']:,.2f}{_half_width(line['slope_interval'])}",
        f"{line['intercept_ms']:,.2f}{_half_width(line['intercept_interval'])}",
        "–" if line["r2"] is None else f"{line['r2']:.4f}",
    )
    return tuple(cell.replace("-", "−") for cell in cells)


def _half_width(interval: Mapping[str, Any] | None) -> str:
    return "" if interval is None else f" ± {(interval['high'] - interval['low']) / 2:,.2f}"

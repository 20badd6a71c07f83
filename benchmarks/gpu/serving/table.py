"""The summary as Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

HEAD = ("what", "unit", "ours", "vLLM, default", "vLLM, Rust front end", "aim", "met")


def render(summary: Mapping[str, Any]) -> str:
    """Circumstances and table."""
    lines = [
        f"- Hardware: {summary['hardware']}",
        f"- Run {summary['run']}; versions: " + ", ".join(f"{k} {v}" for k, v in summary["versions"].items()),
        *(f"- {name}: `{command}`" for name, command in summary["commands"].items()),
        *(f"- {note}" for note in summary.get("notes", ())),
        "",
        _line(HEAD),
        _line(["---"] * len(HEAD)),
        *(_line(_cells(row)) for row in summary["rows"]),
    ]
    return "\n".join(lines) + "\n"


def _cells(row: Mapping[str, Any]) -> list[str]:
    met = {True: "yes", False: "**no**", None: "–"}[row["met"]]
    figures = (_number(row[name]) for name in ("ours", "vllm_default", "vllm_rust"))
    return [row["name"], row["unit"], *figures, f"{_number(row['aim'])} ({row['rule']})", met]


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"

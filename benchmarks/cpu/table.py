"""The summary as Markdown."""

from collections.abc import Mapping
from typing import Any

from benchmarks.markdown import table

COLUMNS = ("what", "unit", "ours", "vLLM", "llama.cpp")
SPREAD_HEAD = "spread (ours / vLLM / llama.cpp)"


def render(summary: Mapping[str, Any]) -> str:
    """A page: the run's circumstances, the rows with an aim, the rest, and the host's share of a hit."""
    parts = [
        "# CPU comparison",
        "Generated from `summary.json` by `python -m benchmarks.cpu.compare --render`; do not edit.",
        "\n".join(_circumstances(summary)),
        "## Aims",
        table((*COLUMNS, "aim", "met", SPREAD_HEAD), [_aimed_cells(row) for row in summary["rows"]]),
        "## Also measured",
        table((*COLUMNS, SPREAD_HEAD), [[*_cells(row), _spread(row)] for row in summary["shown"]]),
    ]
    if summary["host_stages"]:
        stages = [[stage, _number(ms)] for stage, ms in summary["host_stages"].items()]
        parts += ["## Where the host's time of a hit goes (3072 tokens, ours)", table(("stage", "ms"), stages)]
    return "\n\n".join(parts) + "\n"


def _circumstances(summary: Mapping[str, Any]) -> list[str]:
    hardware = summary["hardware"]
    noise = summary["noise"]
    lines = [
        f"- Hardware: {hardware['cpu']}, {hardware['cores']} cores, {hardware['memory_gib']} GiB; "
        + ", ".join(hardware["vector_instructions"]),
        f"- Run {summary['run']}, {summary['duration_s'] / 60:.1f} minutes; load average before "
        f"{summary['load_before'][0]:.2f}, after {summary['load_after'][0]:.2f}",
        "- Versions: " + ", ".join(f"{name} {version}" for name, version in summary["versions"].items()),
        f"- Command: `{summary['command']}`",
    ]
    if noise:
        lines.append(
            f"- Cores used by others during a request: median {noise['foreign_cores_median']:.2f}, "
            f"90th percentile {noise['foreign_cores_p90']:.2f}; {noise['requests_disturbed_percent']:.0f} % of the "
            "requests were disturbed (more than a quarter of a core)"
        )
    return lines + [f"- FAILED: {failure}" for failure in summary["failures"]]


def _aimed_cells(row: Mapping[str, Any]) -> list[str]:
    met = {True: "yes", False: "**no**", None: "not measured"}[row["met"]]
    return [*_cells(row), f"{_number(row['aim'])} ({row['rule']})", met, _spread(row)]


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [row["name"], row["unit"], *(_number(row[server]) for server in ("ours", "vllm", "llamacpp"))]


def _spread(row: Mapping[str, Any]) -> str:
    """Lowest and highest sample of each server."""
    spread = row.get("spread") or {}
    ranges = (spread.get(server) for server in ("ours", "vllm", "llamacpp"))
    return " / ".join(f"{_number(r['min'])}–{_number(r['max'])}" if r else "–" for r in ranges)


def _number(value: float | None) -> str:
    """Three figures or more, as people read them."""
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"

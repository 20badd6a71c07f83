"""The tables of the GPU kernels say what the kept run measured."""

import json
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
RUN: dict[str, Any] = json.loads((BENCHMARKS / "results" / "h200" / "kernels.json").read_text("utf-8"))
README = (BENCHMARKS / "README.md").read_text("utf-8").splitlines()


def test_attention() -> None:
    for row in RUN["attention"]:
        unshared = f"{row['unshared_us']:.1f}" if "unshared_us" in row else "–"
        cells = (
            row["case"],
            f"{row['floor_us']:.1f}",
            f"{row['us']:.1f}",
            unshared,
            f"{row['batch_invariant_us']:.1f}",
        )
        assert f"| {' | '.join(cells)} |" in README


def test_long_prefills() -> None:
    for row in RUN["long_prefill"]:
        figures = " | ".join(f"{row[name]:.0f}" for name in ("floor_us", "us", "library_us"))
        assert f"| {row['case']} | {figures} | {row['relative_error']:.1e} |" in README

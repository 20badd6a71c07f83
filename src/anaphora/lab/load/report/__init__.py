"""Everything that a load run's folder holds beside its records, made from these alone."""

import csv
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from anaphora.lab.load.analysis import ttft_samples
from anaphora.lab.load.records import LoadRun, read_load
from anaphora.lab.load.report.csv_table import csv_rows
from anaphora.lab.load.report.figures import draw, figure_names
from anaphora.lab.load.report.page import load_page
from anaphora.lab.load.report.tables import refusals_of, tables_of
from anaphora.lab.load.report.words import answer
from anaphora.lab.load.results import results_of
from anaphora.report.figures import inline_svg, save
from anaphora.report.terminal import print_table


def write_load(folder: Path) -> dict[str, Any]:
    """Make ``results.json``, ``table.csv``, the figures and ``report.html`` from the folder's records; returns the
    results. What was there before is replaced once all is written."""
    run = read_load(folder)
    results = results_of(run)
    with tempfile.TemporaryDirectory(prefix=".report-", dir=folder) as name:
        fresh = Path(name)
        _write_all(fresh, results, run)
        for path in sorted(fresh.iterdir()):
            path.replace(folder / path.name)
    return results


def print_load(results: Mapping[str, Any], console: Console) -> None:
    """All tables, the doubts, and the answer."""
    for table in tables_of(results):
        print_table(table, console)
    for line in refusals_of(results):
        console.print(Text(f"! {line}", style="yellow"))
    for check in results["trust"]:
        if check["status"] == "warning":
            console.print(Text(f"! {check['name']}: {check['seen']}", style="yellow"))
    console.print(Text(answer(results), style="bold"))


def _write_all(folder: Path, results: Mapping[str, Any], run: LoadRun) -> None:
    text = json.dumps(results, ensure_ascii=False, indent=2, allow_nan=False)
    (folder / "results.json").write_text(text + "\n", "utf-8")
    columns, rows = csv_rows(results["load"])
    with (folder / "table.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([columns, *rows])
    samples = ttft_samples(run)
    drawn: dict[str, str] = {}
    for name in figure_names(results):
        figure = draw(name, results, samples)
        save(figure, folder / name)
        drawn[name] = inline_svg(figure)
    (folder / "report.html").write_text(load_page(results, drawn), "utf-8")

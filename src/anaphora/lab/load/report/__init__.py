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
from anaphora.lab.load.record_file import read_load
from anaphora.lab.load.records import LoadRun
from anaphora.lab.load.report.csv_table import csv_rows
from anaphora.lab.load.report.figures import draw, figure_names
from anaphora.lab.load.report.page import load_page
from anaphora.lab.load.report.tables import refusals_of, tables_of
from anaphora.lab.load.report.words import answer
from anaphora.lab.load.results import results_of
from anaphora.lab.report.figure_files import keep_figure
from anaphora.lab.report.languages import ENGLISH, Language
from anaphora.lab.report.terminal import print_end
from anaphora.report.language import table_in
from anaphora.report.terminal import print_table


def write_load(folder: Path, language: Language = ENGLISH) -> dict[str, Any]:
    """Make ``results.json``, ``table.csv``, the figures and ``report.html`` from the folder's records; returns the
    results. What was there before is replaced once all is written; the files of numbers are the same in every
    language."""
    run = read_load(folder)
    results = results_of(run)
    with tempfile.TemporaryDirectory(prefix=".report-", dir=folder) as name:
        fresh = Path(name)
        _write_all(fresh, results, run, language)
        for path in sorted(fresh.iterdir()):
            path.replace(folder / path.name)
    return results


def print_load(results: Mapping[str, Any], console: Console, language: Language = ENGLISH) -> None:
    """All tables, the doubts, and the answer."""
    say = language.say
    for table in tables_of(results):
        print_table(table_in(table, say), console)
    for line in refusals_of(results):
        console.print(Text(f"! {say(line)}", style="yellow"))
    print_end(results["trust"], answer(results), console, language)


def _write_all(folder: Path, results: Mapping[str, Any], run: LoadRun, language: Language) -> None:
    text = json.dumps(results, ensure_ascii=False, indent=2, allow_nan=False)
    (folder / "results.json").write_text(text + "\n", "utf-8")
    columns, rows = csv_rows(results["load"])
    with (folder / "table.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([columns, *rows])
    samples = ttft_samples(run)
    drawn: dict[str, str] = {}
    for name in figure_names(results):
        drawn[name] = keep_figure(draw(name, results, samples), folder / name, language)
    (folder / "report.html").write_text(load_page(results, drawn, language), "utf-8")

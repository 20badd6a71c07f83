"""Everything that a report folder holds beside its records, made from these alone."""

import csv
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anaphora.lab.report.figure_files import keep_figure
from anaphora.lab.report.languages import ENGLISH, Language
from anaphora.lab.report.page import page
from anaphora.lab.report.presentations import figures_of, presented
from anaphora.lab.results import results_of
from anaphora.report.figures import styled
from anaphora.traces.records import RequestRecord, read_run


def write_report(folder: Path, language: Language = ENGLISH) -> dict[str, Any]:
    """Make ``results.json``, the tables, the figures and ``report.html`` from the folder's records; returns the
    results. What was there before is replaced once all is written: a full disk leaves no half report. ``results.json``
    and the CSV files are the same in every language."""
    run = read_run(folder)
    results = results_of(run)
    with tempfile.TemporaryDirectory(prefix=".report-", dir=folder) as name:
        fresh = Path(name)
        _write_all(fresh, results, run.requests, language)
        for path in sorted(fresh.iterdir()):
            path.replace(folder / path.name)
    return results


def _write_all(folder: Path, results: Mapping[str, Any], records: Sequence[RequestRecord], language: Language) -> None:
    text = json.dumps(results, ensure_ascii=False, indent=2, allow_nan=False)
    (folder / "results.json").write_text(text + "\n", "utf-8")
    for _, presentation, findings in presented(results):
        for file, table in presentation.csv.items():
            _write_csv(folder / file, table.columns, table.rows(findings))
    drawn: dict[str, str] = {}
    for stem, (name, figure, findings) in figures_of(results).items():
        with styled():
            picture = figure.draw(findings, [record for record in records if record.experiment == name])
        drawn[stem] = keep_figure(picture, folder / stem, language)
    (folder / "report.html").write_text(page(results, drawn, language=language), "utf-8")


def _write_csv(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """A comma-separated table; an unknown value is an empty cell."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([["" if row[name] is None else row[name] for name in columns] for row in rows])

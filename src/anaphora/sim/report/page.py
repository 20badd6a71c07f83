"""``report.html`` of a simulation, and its figures as files."""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from anaphora.report.figures import html_figure, inline_svg, save
from anaphora.report.page import document, html_table, section
from anaphora.sim.report.figures import draw, names_of
from anaphora.sim.report.results import write_results
from anaphora.sim.report.tables import tables_of
from anaphora.sim.report.terminal import headline, remarks
from anaphora.sim.report.timing import write_timing
from anaphora.sim.report.ttft_figure import CAPTION as TTFT_CAPTION

_CAPTIONS = {
    "figure-hit-rate": "Prompt tokens from the cache, by capacity and policy; dotted: without bounds.",
    "figure-ledger": "Every prompt token in one class, for each cache.",
    "figure-ttft": TTFT_CAPTION,
}


def write_report(results: Mapping[str, Any], folder: Path) -> None:
    """``results.json``, ``runs.csv``, the figures (PNG and SVG) and ``report.html`` into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_results(results, folder)
    write_timing(results, folder)
    drawn: dict[str, str] = {}
    for name in names_of(results):
        figure = draw(name, results)
        save(figure, folder / name)
        drawn[name] = inline_svg(figure)
    (folder / "report.html").write_text(page(results, drawn), "utf-8")


def page(results: Mapping[str, Any], figures: Mapping[str, str]) -> str:
    """The whole page; ``figures`` are inline SVG by name."""
    items = "".join(f"<li>{escape(remark)}</li>" for remark in remarks(results))
    sections = [
        section("What is strange about the trace", f"<ul>{items}</ul>") if items else "",
        section("Figures", "".join(html_figure(name, svg, _CAPTIONS[name]) for name, svg in figures.items())),
        section("Tables", "".join(html_table(table) for table in tables_of(results))),
    ]
    title = f"Simulated prefix caches: {Path(results['trace']['path']).name}"
    return document(title, headline(results), sections)

"""``report.html``: one file without scripts or outside resources, for wide and narrow screens, light and dark.

Everything that comes from a server, a prompt or a setting goes through :func:`html.escape`; nothing is trusted to be
harmless.
"""

import re
from collections.abc import Mapping
from html import escape
from typing import Any

from anaphora.lab.arms import Mechanism
from anaphora.lab.report.figures import GRID, INK, OFF, ON, PAPER
from anaphora.lab.report.style import STYLE
from anaphora.lab.report.tables import WITNESS_NAMES, Table, plain_rows, tables_of
from anaphora.lab.report.words import answer, percent

_CAPTIONS = {
    "figure-switch": "Each question in both arms; hollow: the first request of an arm, in no statistic.",
    "figure-a-ttft": "Every measured request, the medians of each length, and least squares through the medians.",
    "figure-b-reduction": "Reduction of the median TTFT; the bars are intervals from pairs measured side by side.",
}
_COLOUR_VARIABLES = {OFF: "var(--off)", ON: "var(--on)", INK: "var(--ink)", GRID: "var(--grid)", PAPER: "var(--paper)"}
_POINTS_PER_REM = 11.0
_STATUS_SIGNS = {"ok": "✓", "warning": "!", "unknown": "?"}
_EXPERIMENT_QUESTIONS = {
    "switch": "Does prefix caching help when short questions follow one long system prompt, and by how much?",
    "gradient": "How does the gain grow with the length of the shared prefix?",
}


def page(results: Mapping[str, Any], figures: Mapping[str, str]) -> str:
    """The whole page; ``figures`` are inline SVG by name."""
    model = escape(str(results["target"]["model"]))
    sections = [
        _section("What was asked", _asked(results)),
        _section("Answer", f'<p class="answer">{escape(answer(results))}</p>'),
        _section("Figures", "".join(_figure(name, svg) for name, svg in figures.items())) if figures else "",
        _section("Tables", "".join(_table(table) for table in tables_of(results))),
        _section("Three witnesses of a hit", _witnesses(results)),
        _section("Can these numbers be trusted?", _trust(results)),
        _section("Environment", _environment(results)),
        _section("How to make this again", _again(results)),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>Prefix caching on {model}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<header><h1>Prefix caching on {model}</h1><p>{escape(_when_and_where(results))}</p></header>\n"
        + "\n".join(sections)
        + "\n</main>\n</body>\n</html>\n"
    )


def _section(title: str, body: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}\n</section>"


def _when_and_where(results: Mapping[str, Any]) -> str:
    environment, target = results["environment"], results["target"]
    server = f"{target['kind']} {target['version'] or ''}".strip()
    when = results["run"]["started_at"][:16].replace("T", " ")
    return f"{when} UTC · server: {server} · client: {environment['processor']}"


def _asked(results: Mapping[str, Any]) -> str:
    settings = results["run"]["settings"]
    mechanism = Mechanism(settings["mechanism"])
    questions = "".join(f"<li>{_EXPERIMENT_QUESTIONS[name]}</li>" for name in results["experiments"])
    turns = "in blocks on, off, off, on" if mechanism is Mechanism.FLAG else "request by request, in random order"
    proof = f" Proved beforehand: {settings['mechanism_proof']}." if settings["mechanism_proof"] else ""
    lengths = "" if settings["exact_lengths"] else " Prompt lengths were estimated, for want of the target's tokenizer."
    return (
        f"<ul>{questions}</ul><p>“Off” is {escape(mechanism.off_means)}.{escape(proof)} The arms took turns {turns}. "
        f"Prompts "
        f"were new in this run, and the warm-up used others.{lengths}</p><p><b>TTFT</b>, time to first token, runs "
        f"from the "
        "moment the request is handed to the socket to the arrival of the bytes that carry the first generated token; "
        "<b>E2E</b>, end to end, runs to the arrival of the answer’s last bytes.</p>"
    )


def _figure(name: str, svg: str) -> str:
    """An inline figure that takes the page's colours; ids get a prefix so that figures do not borrow each other's."""
    for colour, variable in _COLOUR_VARIABLES.items():
        svg = svg.replace(colour, variable)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    caption = escape(_CAPTIONS[name])
    natural = re.search(r'width="([\d.]+)pt"', svg)
    limit = f' style="max-width:{float(natural[1]) / _POINTS_PER_REM:.0f}rem"' if natural else ""
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{caption}"{limit}', 1)
    return f"<figure>{svg}<figcaption>{caption}</figcaption></figure>"


def _table(table: Table) -> str:
    left = [name.startswith("<") for name in table.columns]
    head = "".join(
        _cell("th", name.removeprefix("<"), is_left) for name, is_left in zip(table.columns, left, strict=True)
    )
    body = "".join(
        "<tr>" + "".join(_cell("td", cell, is_left) for cell, is_left in zip(row, left, strict=True)) + "</tr>"
        for row in table.rows
    )
    note = "".join(f'<p class="note">{escape(line)}</p>' for line in table.note.splitlines())
    return (
        f'<div class="scroll"><table><caption>{escape(table.title)}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{note}"
    )


def _cell(tag: str, text: str, is_left: bool) -> str:
    return f"<{tag}{' class=left' if is_left else ''}>{escape(text)}</{tag}>"


def _witnesses(results: Mapping[str, Any]) -> str:
    rows = [
        (name, WITNESS_NAMES[witness], percent(all_of_them[witness]), percent(later[witness]))
        for name, experiment in results["experiments"].items()
        for all_of_them, later in [(experiment["hit_rate_percent"], experiment["hit_rate_percent_after_first"])]
        for witness in WITNESS_NAMES
    ]
    columns = ("<experiment", "<witness", "hit rate, all on-requests", "without those that fill the cache")
    explanation = (
        "<p>Share of prompt tokens that came from the prefix cache in the on arm, as three sources tell it: the "
        "answers’ own "
        "<code>usage</code>, the growth of the server’s counters around each request, and what the same cache "
        "arithmetic "
        "predicted from the tokenised prompts before anything was sent. “unknown” means that a source is silent; it is "
        "not 0.</p>"
    )
    return explanation + _table(Table("", columns, tuple(rows)))


def _trust(results: Mapping[str, Any]) -> str:
    items = "".join(_check(check["name"], check["status"], check["seen"]) for check in results["trust"])
    errors = "".join(f"<li>{escape(str(error))}</li>" for error in results["errors"])
    return f'<ul class="checks">{items}</ul>' + (f"<h3>Failed requests</h3><ul>{errors}</ul>" if errors else "")


def _check(name: str, status: str, seen: str) -> str:
    sign = f'<span class="sign" title="{escape(status)}">{_STATUS_SIGNS[status]}</span>'
    return f'<li class="{escape(status)}">{sign}<b>{escape(name)}</b><span>{escape(seen)}</span></li>'


def _environment(results: Mapping[str, Any]) -> str:
    rows = (*plain_rows(results["environment"]), *plain_rows(results["target"], "target."))
    return _table(Table("", ("<", "<"), tuple(rows)))


def _again(results: Mapping[str, Any]) -> str:
    return (
        f"<pre><code>{escape(results['run']['settings']['command'])}</code></pre><p>The folder of this page holds "
        "<code>records.jsonl</code>, the raw stamps and counts of every request. <code>anaphora report FOLDER</code> "
        "makes "
        "everything else from it again; <code>anaphora fit table.csv</code> fits the table alone.</p>"
    )

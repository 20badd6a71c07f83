"""``report.html``: what a run asked, what it found, and whether that can be trusted.

Everything that comes from a server, a prompt or a setting goes through :func:`html.escape`; nothing is trusted to be
harmless.
"""

from collections.abc import Mapping
from html import escape
from typing import Any

from anaphora.lab.arms import Mechanism
from anaphora.lab.report.hit_rates import WITNESS_NAMES
from anaphora.lab.report.presentations import answer, figures_of, presented, tables_of
from anaphora.lab.report.tables import plain_rows
from anaphora.lab.report.words import percent
from anaphora.report.figures import html_figure
from anaphora.report.page import document, html_table, section
from anaphora.report.tables import Table

_STATUS_SIGNS = {"ok": "✓", "warning": "!", "unknown": "?"}


def page(results: Mapping[str, Any], figures: Mapping[str, str]) -> str:
    """The whole page; ``figures`` are inline SVG by name."""
    known = figures_of(results)
    drawn = "".join(html_figure(stem, svg, known[stem][1].caption) for stem, svg in figures.items())
    sections = [
        section("What was asked", _asked(results)),
        section("Answer", f'<p class="answer">{escape(answer(results))}</p>'),
        section("Figures", drawn) if figures else "",
        section("Tables", "".join(html_table(table) for table in tables_of(results))),
        section("Three witnesses of a hit", _witnesses(results)),
        section("Can these numbers be trusted?", trust_list(results)),
        section("Environment", environment_table(results)),
        section("How to make this again", _again(results)),
    ]
    return document(f"Prefix caching on {results['target']['model']}", when_and_where(results), sections)


def when_and_where(results: Mapping[str, Any]) -> str:
    """The line below a page's title."""
    environment, target = results["environment"], results["target"]
    server = f"{target['kind']} {target['version'] or ''}".strip()
    when = results["run"]["started_at"][:16].replace("T", " ")
    return f"{when} UTC · server: {server} · client: {environment['processor']}"


def _asked(results: Mapping[str, Any]) -> str:
    settings = results["run"]["settings"]
    mechanism = Mechanism(settings["mechanism"])
    questions = "".join(f"<li>{escape(presentation.question)}</li>" for _, presentation, _ in presented(results))
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
    return explanation + html_table(Table("", columns, tuple(rows)))


def trust_list(results: Mapping[str, Any]) -> str:
    """All checks, and what failed requests said."""
    items = "".join(_check(check["name"], check["status"], check["seen"]) for check in results["trust"])
    errors = "".join(f"<li>{escape(str(error))}</li>" for error in results["errors"])
    return f'<ul class="checks">{items}</ul>' + (f"<h3>Failed requests</h3><ul>{errors}</ul>" if errors else "")


def _check(name: str, status: str, seen: str) -> str:
    sign = f'<span class="sign" title="{escape(status)}">{_STATUS_SIGNS[status]}</span>'
    return f'<li class="{escape(status)}">{sign}<b>{escape(name)}</b><span>{escape(seen)}</span></li>'


def environment_table(results: Mapping[str, Any]) -> str:
    """The client's machine and the server, as far as they are known."""
    rows = (*plain_rows(results["environment"]), *plain_rows(results["target"], "target."))
    return html_table(Table("", ("<", "<"), tuple(rows)))


def _again(results: Mapping[str, Any]) -> str:
    return (
        f"<pre><code>{escape(results['run']['settings']['command'])}</code></pre><p>The folder of this page holds "
        "<code>records.jsonl</code>, the raw stamps and counts of every request. <code>anaphora report FOLDER</code> "
        "makes "
        "everything else from it again; <code>anaphora fit table.csv</code> fits the table alone.</p>"
    )

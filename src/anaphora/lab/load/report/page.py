"""``report.html`` of a load run. Texts of servers, traces and settings all go through :func:`html.escape`."""

from collections.abc import Mapping
from html import escape
from typing import Any

from anaphora.lab.arms import Mechanism
from anaphora.lab.load.report.figures import CAPTIONS
from anaphora.lab.load.report.tables import details_of, tables_of
from anaphora.lab.load.report.words import answer, limits_text
from anaphora.lab.report.page import environment_table, trust_list, when_and_where
from anaphora.report.figures import html_figure
from anaphora.report.page import document, html_table, section

_LOOPS = {
    "closed": "How do latency and throughput change with the number of clients that ask again as soon as they are "
    "answered?",
    "open": "How long do requests take that come at their own times, whatever the server does?",
    "replay": "What would the requests of a recorded trace have met?",
}


def load_page(results: Mapping[str, Any], figures: Mapping[str, str]) -> str:
    """The whole page; ``figures`` are inline SVG by name."""
    drawn = "".join(html_figure(name, svg, CAPTIONS[name]) for name, svg in figures.items())
    sections = [
        section("What was asked", _asked(results)),
        section("Answer", f'<p class="answer">{escape(answer(results))}</p>'),
        section("Figures", drawn) if figures else "",
        section("Tables", "".join(html_table(table) for table in (*tables_of(results), *details_of(results)))),
        section("Can these numbers be trusted?", trust_list(results)),
        section("Environment", environment_table(results)),
        section("How to make this again", _again(results)),
    ]
    return document(f"Load on {results['target']['model']}", when_and_where(results), sections)


def _asked(results: Mapping[str, Any]) -> str:
    settings = results["run"]["settings"]
    loop = results["load"]["loop"]
    mechanism = Mechanism(settings["mechanism"])
    proof = f" Proved beforehand: {settings['mechanism_proof']}." if settings["mechanism_proof"] else ""
    lengths = "" if settings["exact_lengths"] else " Lengths were estimated, for want of the target's tokenizer."
    limits = f" Limits: {limits_text(results['load']['slo'])}." if results["load"]["slo"] else ""
    return (
        f"<p>{_LOOPS[loop]}</p><p>{escape(_workload(settings, loop) + lengths + limits)}</p>"
        f"<p>“Off” is {escape(mechanism.off_means + '.' + proof)} Each level was run in both arms, one after the "
        "other, with texts that no other level had. Every stage was warmed up first, and its load went on until "
        "the last measured request was answered; warm-up and cool-down are in no figure.</p>"
        "<p><b>TTFT</b>, time to first token, runs from the moment the request is handed to the socket to the arrival "
        "of the bytes that carry the first generated token; <b>TPOT</b> is the time per token after that; <b>E2E</b> "
        "runs to the arrival of the answer’s last bytes.</p>"
    )


def _workload(settings: Mapping[str, Any], loop: str) -> str:
    if loop == "replay":
        shrunk = f", with blocks and outputs divided by {settings['shrink']}" if settings["shrink"] > 1 else ""
        return f"Requests of the trace {str(settings['trace']).rpartition('/')[2]}, at its own times{shrunk}."
    shared = settings["num_prefixes"]
    return (
        f"Chats of {settings['prefix_tokens']:,} tokens in {shared} shared system prompt{'s' if shared > 1 else ''}, "
        f"{settings['unique_tokens']:,} tokens of their own and {settings['output_tokens']:,} output tokens."
    )


def _again(results: Mapping[str, Any]) -> str:
    return (
        f"<pre><code>{escape(results['run']['settings']['command'])}</code></pre><p>The folder of this page holds "
        "<code>load.jsonl</code>, the raw stamps of every request, token by token. <code>anaphora report FOLDER</code> "
        "makes everything else from it again.</p>"
    )

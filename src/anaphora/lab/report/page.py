"""``report.html``: what a run asked, what it found, and whether that can be trusted.

Everything that comes from a server, a prompt or a setting goes through :func:`html.escape`; nothing is trusted to be
harmless.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from anaphora.lab.arms import Mechanism
from anaphora.lab.report.languages import ENGLISH, Language
from anaphora.lab.report.presentations import answer, figures_of, presented, tables_of
from anaphora.lab.report.tables import plain_rows
from anaphora.lab.report.witnesses import EXPLANATION, arms_table, disagreements_table, rates_table
from anaphora.lab.report.words import model_name
from anaphora.lab.targets.system_role import SENTENCE
from anaphora.report.figures import html_figure
from anaphora.report.language import Say, english, table_in
from anaphora.report.page import document, foldable_table, html_table, section
from anaphora.report.tables import Table

_TERMS = (
    "<b>TTFT</b>, time to first token, runs from the moment the request is handed to the socket to the arrival of the "
    "bytes that carry the first generated token.",
    "<b>E2E</b>, end to end, runs to the arrival of the answer’s last bytes.",
)
_AGAIN = (
    "The folder of this page holds <code>records.jsonl</code>, the raw stamps and counts of every request.",
    "<code>anaphora report FOLDER</code> makes everything else from it again; <code>anaphora fit table.csv</code> fits "
    "the table alone.",
)
_STATUS_SIGNS = {"ok": "✓", "warning": "!", "unknown": "?"}


def page(results: Mapping[str, Any], figures: Mapping[str, str], *, language: Language = ENGLISH) -> str:
    """The whole page; ``figures`` are inline SVG by name."""
    say, known = language.say, figures_of(results)
    drawn = "".join(html_figure(stem, svg, say(known[stem][1].caption)) for stem, svg in figures.items())
    sections = {
        "What was asked": _asked(results, say),
        "Answer": f'<p class="answer">{escape(say(answer(results)))}</p>',
        "Figures": drawn,
        "Tables": "".join(html_table(table_in(table, say)) for table in tables_of(results)),
        "Three witnesses of a hit": _witnesses(results, say),
        "Can these numbers be trusted?": trust_list(results, say),
        "Environment": environment_table(results),
        "How to make this again": _again(results, say),
    }
    return document(
        say(f"Prefix caching on {model_name(results['target'])}"),
        say(when_and_where(results)),
        [section(say(title), body) for title, body in sections.items() if body],
        language=language.code,
    )


def when_and_where(results: Mapping[str, Any]) -> str:
    """The line below a page's title."""
    environment, target = results["environment"], results["target"]
    server = f"{target['kind']} {target['version'] or ''}".strip()
    when = results["run"]["started_at"][:16].replace("T", " ")
    return f"{when} UTC · server: {server} · client: {environment['processor']}"


def _asked(results: Mapping[str, Any], say: Say) -> str:
    settings = results["run"]["settings"]
    mechanism = Mechanism(settings["mechanism"])
    questions = "".join(f"<li>{escape(say(presentation.question))}</li>" for _, presentation, _ in presented(results))
    turns = "in blocks on, off, off, on" if mechanism.is_by_flag else "request by request, in random order"
    has_off = any(one["arm"] == "off" for one in results["witnesses"]["arms"])
    about_off = [
        f"“Off” is {mechanism.off_means}.",
        *mechanism.proof_in_words(settings["mechanism_proof"]),
        f"The arms took turns {turns}.",
    ]
    facts = [
        *(about_off if has_off else ["Every request went with caching on."]),
        "Prompts were new in this run, and the warm-up used others.",
        *([] if settings["exact_lengths"] else ["Prompt lengths were estimated, for want of the target's tokenizer."]),
        *([] if results["target"].get("takes_system", True) else [SENTENCE]),
    ]
    return f"<ul>{questions}</ul>{paragraph(facts, lambda text: escape(say(text)))}{paragraph(_TERMS, say)}"


def paragraph(sentences: Sequence[str], say: Say) -> str:
    """HTML of sentences, each said by ``say``, which escapes what is to be escaped."""
    return f"<p>{' '.join(map(say, sentences))}</p>"


def _witnesses(results: Mapping[str, Any], say: Say) -> str:
    parts = [rates_table(results), arms_table(results)]
    shown = "".join(html_table(table_in(table, say)) for table in parts)
    parted = disagreements_table(results)
    single = foldable_table(parted, say) if parted.rows else ""
    return f"{paragraph(EXPLANATION, say)}{shown}{single}"


def trust_list(results: Mapping[str, Any], say: Say = english) -> str:
    """All checks, and what failed requests said."""
    items = "".join(
        _check(say(check["name"]), check["status"], say(check["status"]), say(check["seen"]))
        for check in results["trust"]
    )
    errors = "".join(f"<li>{escape(_failed(error, say))}</li>" for error in results["errors"])
    failed = f"<h3>{say('Failed requests')}</h3><ul>{errors}</ul>" if errors else ""
    return f'<ul class="checks">{items}</ul>{failed}'


def _failed(error: Mapping[str, Any] | str, say: Say) -> str:
    """Which request, and what the server said of it; a load run sums up and has the text alone."""
    if isinstance(error, str):
        return error
    place = say(f"{error['experiment']} {error['group']}")
    return f"{place}, {say(error['arm'])}, {error['index']}: {error['error']}"


def _check(name: str, status: str, status_name: str, seen: str) -> str:
    sign = f'<span class="sign" title="{escape(status_name)}">{_STATUS_SIGNS[status]}</span>'
    return f'<li class="{escape(status)}">{sign}<b>{escape(name)}</b><span>{escape(seen)}</span></li>'


def environment_table(results: Mapping[str, Any]) -> str:
    """The client's machine and the server, as far as they are known."""
    rows = (*plain_rows(results["environment"]), *plain_rows(results["target"], "target."))
    return html_table(Table("", ("<", "<"), tuple(rows)))


def _again(results: Mapping[str, Any], say: Say) -> str:
    return f"<pre><code>{escape(results['run']['settings']['command'])}</code></pre>{paragraph(_AGAIN, say)}"

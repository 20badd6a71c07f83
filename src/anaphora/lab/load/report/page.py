"""``report.html`` of a load run. Texts of servers, traces and settings all go through :func:`html.escape`."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from anaphora.lab.arms import Mechanism
from anaphora.lab.load.report.figures import CAPTIONS
from anaphora.lab.load.report.tables import details_of, tables_of, witnesses_table
from anaphora.lab.load.report.words import answer, limits_text
from anaphora.lab.report.languages import ENGLISH, Language
from anaphora.lab.report.page import environment_table, paragraph, trust_list, when_and_where
from anaphora.lab.report.words import model_name
from anaphora.lab.targets.system_role import SENTENCE
from anaphora.report.figures import html_figure
from anaphora.report.language import Say, table_in
from anaphora.report.page import document, html_table, section
from anaphora.report.tables import Table

_LOOPS = {
    "closed": "How do latency and throughput change with the number of clients that ask again as soon as they are "
    "answered?",
    "open": "How long do requests take that come at their own times, whatever the server does?",
    "replay": "What would the requests of a recorded trace have met?",
}
_STAGES = (
    "Each level was run in both arms, one after the other, with texts that no other level had.",
    "Every stage was warmed up first, and its load went on until the last measured request was answered; warm-up and "
    "cool-down are in no figure.",
)
_TERMS = (
    "<b>TTFT</b>, time to first token, runs from the moment the request is handed to the socket to the arrival of the "
    "bytes that carry the first generated token.",
    "<b>TPOT</b> is the time per token after that.",
    "<b>E2E</b>, end to end, runs to the arrival of the answer’s last bytes.",
)
_WITNESSES = (
    "Prompt tokens that came from the prefix cache in whole stages, warm-up and cool-down included, as three sources "
    "tell it: the answers’ own <code>usage</code>, the growth of the server’s counters from before a stage to after "
    "it, and what the same cache arithmetic predicts from the tokenised prompts in the order in which they were sent.",
    "“unknown” means that a source is silent; it is not 0.",
)
_AGAIN = (
    "The folder of this page holds <code>load.jsonl</code>, the raw stamps of every request, token by token.",
    "<code>anaphora report FOLDER</code> makes everything else from it again.",
)


def load_page(results: Mapping[str, Any], figures: Mapping[str, str], language: Language = ENGLISH) -> str:
    """The whole page; ``figures`` are inline SVG by name."""
    say = language.say
    drawn = "".join(html_figure(name, svg, say(CAPTIONS[name])) for name, svg in figures.items())
    sections = {
        "What was asked": _asked(results, say),
        "Answer": f'<p class="answer">{escape(say(answer(results)))}</p>',
        "Figures": drawn,
        "Tables": _tables((*tables_of(results), *details_of(results)), say),
        "Three witnesses of a hit": paragraph(_WITNESSES, say) + _tables((witnesses_table(results),), say),
        "Can these numbers be trusted?": trust_list(results, say),
        "Environment": environment_table(results),
        "How to make this again": _again(results, say),
    }
    return document(
        say(f"Load on {model_name(results['target'])}"),
        say(when_and_where(results)),
        [section(say(title), body) for title, body in sections.items() if body],
        language=language.code,
    )


def _tables(tables: Sequence[Table], say: Say) -> str:
    return "".join(html_table(table_in(table, say)) for table in tables)


def _asked(results: Mapping[str, Any], say: Say) -> str:
    settings = results["run"]["settings"]
    loop = results["load"]["loop"]
    num_resumed = len(results["run"]["resumed"])
    facts = [
        _LOOPS[loop],
        _workload(settings, loop),
        *([] if settings["exact_lengths"] else ["Prompt lengths were estimated, for want of the target's tokenizer."]),
        *([] if results["target"].get("takes_system", True) else [SENTENCE]),
        *([f"Limits: {limits_text(results['load']['slo'])}."] if results["load"]["slo"] else []),
    ]
    mechanism = Mechanism(settings["mechanism"])
    again = f", {num_resumed} times in all" if num_resumed > 1 else ""
    arms = [
        f"“Off” is {mechanism.off_means}.",
        *mechanism.proof_in_words(settings["mechanism_proof"]),
        *_STAGES,
        *([f"The run was cut short and resumed{again}."] if num_resumed else []),
    ]
    return "".join(paragraph(texts, lambda text: escape(say(text))) for texts in (facts, arms)) + paragraph(_TERMS, say)


def _workload(settings: Mapping[str, Any], loop: str) -> str:
    if loop == "replay":
        name = str(settings["trace"]).rpartition("/")[2]
        shrunk = f", with blocks and outputs divided by {settings['shrink']}" if settings["shrink"] > 1 else ""
        return f"Requests of the trace {name}, at its own times{shrunk}."
    shared = settings["num_prefixes"]
    return (
        f"Chats of {settings['prefix_tokens']:,} tokens in {shared} shared system prompt{'s' if shared > 1 else ''}, "
        f"{settings['unique_tokens']:,} tokens of their own and {settings['output_tokens']:,} output tokens."
    )


def _again(results: Mapping[str, Any], say: Say) -> str:
    return f"<pre><code>{escape(results['run']['settings']['command'])}</code></pre>{paragraph(_AGAIN, say)}"

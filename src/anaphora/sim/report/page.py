"""``report.html`` of a simulation, and its figures as files.

Everything that comes from a trace or a setting goes through :func:`html.escape`.
"""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from anaphora.report.figures import html_figure, inline_svg, save
from anaphora.report.page import document, foldable_table, html_table, section
from anaphora.sim.report.answer import answer
from anaphora.sim.report.figures import draw, names_of
from anaphora.sim.report.results import write_results
from anaphora.sim.report.tables import hit_rates, ledgers, reasons_of
from anaphora.sim.report.terminal import headline, remarks, sample_lines
from anaphora.sim.report.timing import is_timed, timing_tables, write_timing
from anaphora.sim.report.ttft_figure import CAPTION as TTFT_CAPTION
from anaphora.sim.report.words import CLASSES

_CAPTIONS = {
    "figure-hit-rate": "Markers are replays, those of one capacity side by side; dots between them only lead the "
    "eye. The line is LRU at all capacities, from reuse distances. Bars, if any: the expected error of a sample.",
    "figure-ledger": "Every prompt token in one class, for each cache that was tried.",
    "figure-reuse": "Full blocks. Left: LRU serves a reuse if its distance is less than the capacity. "
    "Right: how long a block must be kept for it.",
    "figure-working-set": "Different full blocks used since the beginning, and within windows of time: a cache "
    "that holds fewer cannot keep every block for so long.",
    "figure-ttft": TTFT_CAPTION,
}


def write_report(results: Mapping[str, Any], folder: Path) -> None:
    """``results.json``, ``runs.csv``, the figures (PNG and SVG) and ``report.html`` into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_results(results, folder)
    write_timing(results, folder)
    drawn = {name: draw(name, results) for name in names_of(results)}
    for name, figure in drawn.items():
        save(figure, folder / name)
    (folder / "report.html").write_text(
        page(results, {name: inline_svg(figure) for name, figure in drawn.items()}), "utf-8"
    )


def page(results: Mapping[str, Any], figures: Mapping[str, str]) -> str:
    """The whole page; ``figures`` are inline SVG by name."""
    shown = {name: html_figure(name, svg, _CAPTIONS[name]) for name, svg in figures.items()}
    sections = [
        section("Answer", f'<p class="answer">{escape(answer(results))}</p>'),
        section("How much the cache serves", _RULES + shown["figure-hit-rate"] + foldable_table(hit_rates(results))),
        section("Where the tokens went", _classes(results) + shown["figure-ledger"] + foldable_table(ledgers(results))),
        section("In time", _timing(results, shown)) if is_timed(results) else "",
        section("The trace itself", _TRACE + shown["figure-reuse"] + shown["figure-working-set"]),
        section("Can these numbers be trusted?", _doubts(results)),
        section("How to make this again", _again(results)),
    ]
    return document(f"Simulated prefix caches: {Path(results['trace']['path']).name}", headline(results), sections)


_RULES = (
    "<p>Hit rates are counted by two rules. Both look a prompt up from its first token on, and end at the first block "
    "that is not cached.</p>"
    '<dl class="terms"><dt>Engine’s rule</dt><dd>What a server does. Full blocks alone are shared, and the last token '
    "of a prompt is always computed, since its logits give the first new one. So a prompt of L tokens in blocks of B "
    "reuses at most ⌊(L − 1) / B⌋ · B of them.</dd>"
    "<dt>Trace rule</dt><dd>What published figures of traces count: a partial last block is a block like any other, "
    "and a prompt that is cached from end to end is a hit from end to end. Use it to compare with published figures, "
    "and the engine’s to plan.</dd></dl>"
)
_TRACE = (
    "<p>No cache is needed to know these. The <b>reuse distance</b> of a block is the number of other blocks used "
    "between two uses of it, and LRU keeps a block just if that is less than the capacity. The <b>time to reuse</b> is "
    "how long the block waits. The <b>working set</b> is the number of different blocks used within a time.</p>"
)


def _classes(results: Mapping[str, Any]) -> str:
    """What each class means that has tokens here."""
    terms = "".join(f"<dt>{escape(reason)}</dt><dd>{escape(CLASSES[reason])}</dd>" for reason in reasons_of(results))
    return (
        "<p>The reuse ledger puts every prompt token into exactly one class, the first that fits. The classes of a "
        f'prompt add up to its length.</p><dl class="terms">{terms}</dl>'
    )


def _timing(results: Mapping[str, Any], shown: Mapping[str, str]) -> str:
    """What the scheduler and the durations of steps make of it."""
    tables = "".join(html_table(table) for table in timing_tables(results))
    return (
        "<p>The same prompts at their times through the engine’s own scheduler and cache, in simulated time. Where "
        f"the duration of a step comes from is said below the last table.</p>{shown['figure-ttft']}{tables}"
    )


def _doubts(results: Mapping[str, Any]) -> str:
    """What was strange about the trace, what a sample leaves open, and what a replay of a trace cannot know."""
    found = "".join(f"<li>{escape(remark)}</li>" for remark in remarks(results)) or "<li>nothing strange was found</li>"
    trace = results["trace"]
    counts = f"{trace['rows']:,} rows were read, and {trace['requests']:,} requests kept."
    drawn = "".join(f"<p>{escape(line)}</p>" for line in sample_lines(results))
    heading = "<h3>The sample</h3>" if drawn else ""
    return (
        f"<h3>The trace</h3><p>{escape(counts)}</p><ul>{found}</ul>{heading}{drawn}<h3>The replay</h3><p>Prompts "
        "follow one another, each computed before the next comes: nothing is in flight, nobody is preempted. Only "
        "prompts are cached, and answers whose tokens the trace tells: block ids of prompts do not tell which blocks "
        "the answers would have filled.</p>"
    )


def _again(results: Mapping[str, Any]) -> str:
    return (
        f"<pre><code>{escape(results['command'])}</code></pre><p><code>results.json</code> beside this page holds "
        "every number on it and those behind its figures, <code>runs.csv</code> one row for each cache. The same trace "
        "and command give the same numbers.</p>"
    )

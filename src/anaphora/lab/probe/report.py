"""What a probe leaves: ``probe.json``, a page, and what the terminal shows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from anaphora.lab.probe import figure
from anaphora.lab.probe.asking import Asked
from anaphora.lab.probe.finding import Finding
from anaphora.lab.probe.settings import StepCost
from anaphora.lab.probe.tables import findings_table, how_sure, label
from anaphora.lab.report.figure_files import keep_figure
from anaphora.lab.report.languages import ENGLISH, Language
from anaphora.lab.report.words import model_name
from anaphora.report.figures import html_figure
from anaphora.report.language import table_in
from anaphora.report.page import document, foldable_table, html_table, section
from anaphora.report.tables import Table

JSON_FILE, PAGE_FILE = "probe.json", "probe.html"
_LABEL = 12
"""Columns of a finding's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """All that is kept. ``num_foreign_tokens``: what others asked of the server meanwhile, as far as its counters
    tell."""

    started_at: str
    command: str
    target: Mapping[str, Any]
    environment: Mapping[str, Any]
    findings: Sequence[Finding]
    log: Sequence[Asked]
    num_tokens_sent: int
    num_foreign_tokens: int
    is_complete: bool
    language: Language = ENGLISH

    def as_json(self, *, with_requests: bool = True) -> dict[str, Any]:
        """``findings`` by name; ``null`` is what cannot be told."""
        return {
            "started_at": self.started_at,
            "command": self.command,
            "target": dict(self.target),
            "findings": {finding.name: _finding_json(finding) for finding in self.findings},
            "num_requests": len(self.log),
            "num_tokens_sent": self.num_tokens_sent,
            "num_foreign_tokens": self.num_foreign_tokens,
            "is_complete": self.is_complete,
            "environment": dict(self.environment),
            **({"requests": [asdict(asked) for asked in self.log]} if with_requests else {}),
        }

    def write(self, folder: Path) -> None:
        """The files of the folder."""
        text = json.dumps(self.as_json(), ensure_ascii=False, indent=1, allow_nan=False)
        (folder / JSON_FILE).write_text(text + "\n", "utf-8")
        drawn = figure.steps_figure(self.log, f"Shared and reused: {model_name(self.target)}")
        svg = "" if drawn is None else keep_figure(drawn, folder / figure.NAME, self.language)
        (folder / PAGE_FILE).write_text(self.page(svg), "utf-8")

    def print(self, console: Console) -> None:
        """Each finding with what was seen."""
        say = self.language.say
        for finding in self.findings:
            name = say(label(finding))
            name += " " * (_LABEL - cell_len(name))
            console.print(Text.assemble(name, (say(finding.answer), "bold"), (f"  ({say(how_sure(finding))})", "dim")))
            said = f"; the server itself says {finding.published}" if finding.published else ""
            console.print(Padding(Text(say(f"{finding.evidence}{said}"), style="dim"), (0, 0, 0, _LABEL)))
        for doubt in self.doubts():
            console.print(Text(f"! {say(doubt)}", style="yellow"))

    def doubts(self) -> list[str]:
        """What speaks against the findings."""
        doubts = []
        if self.num_foreign_tokens:
            doubts.append(
                f"others asked this server meanwhile ({self.num_foreign_tokens:,} tokens): what they stored and pushed "
                "out is in capacity and retention"
            )
        if not self.is_complete:
            doubts.append("the probe was stopped before its end")
        return doubts

    def page(self, svg: str) -> str:
        """The whole page; ``svg``: its figure, or nothing."""
        say = self.language.say
        doubts = "".join(f"<p><b>{escape(say(doubt))}</b></p>" for doubt in self.doubts())
        seen = "".join(
            f"<dt>{escape(say(label(one)))}</dt><dd>{escape(say(one.evidence))}</dd>" for one in self.findings
        )
        sections = {
            "Answer": html_table(table_in(findings_table(self.findings), say)) + doubts,
            "What was seen": f'<dl class="terms">{seen}</dl>',
            "Figure": html_figure(figure.NAME, svg, say(figure.CAPTION)) if svg else "",
            "Requests": foldable_table(_requests_table(self.log), say),
            "How to make this again": f"<pre><code>{escape(self.command)}</code></pre>",
        }
        server = f"{self.target['kind']} {self.target['version'] or ''}".strip()
        when = self.started_at[:16].replace("T", " ")
        title = f"The prefix cache behind {model_name(self.target)}"
        return document(
            say(title),
            say(f"{when} UTC · server: {server} · found from outside"),
            [section(say(name), body) for name, body in sections.items() if body],
            language=self.language.code,
        )


def costs_table(costs: Sequence[StepCost], max_tokens: int) -> Table:
    """What would be sent, before anything is."""
    rows = [
        (
            cost.name.replace("_", " "),
            "" if cost.num_requests is None else f"{cost.num_requests:,}",
            f"{cost.num_tokens:,}",
            f"{cost.wait_s:g} s" if cost.wait_s else "",
        )
        for cost in costs
    ]
    rows.append(("all together", "", f"{max_tokens:,}", ""))
    note = (
        "each answer has one token; prompts that do not hit at this length are tried longer, within the same sum; "
        "a cached token counts like any other"
    )
    return Table("At most", ("<step", "requests", "prompt tokens", "waiting"), tuple(rows), note)


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {**asdict(finding), "answer": finding.answer}


def _requests_table(log: Sequence[Asked]) -> Table:
    rows = [
        (
            asked.step.replace("_", " "),
            asked.name,
            "–" if asked.num_prompt_tokens is None else f"{asked.num_prompt_tokens:,}",
            "–" if asked.num_cached_tokens is None else f"{asked.num_cached_tokens:,}",
            f"{asked.e2e_ms:,.1f}",
        )
        for asked in log
    ]
    return Table("All requests", ("<step", "<prompt", "prompt tokens", "cached tokens", "E2E (ms)"), tuple(rows))

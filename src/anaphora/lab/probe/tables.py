"""Findings as a table and as sentences, for the terminal and for the page alike."""

from collections.abc import Sequence

from anaphora.lab.probe.finding import Confidence, Finding
from anaphora.report.tables import Table

_LEAST_SHOWN = 0.001


def label(finding: Finding) -> str:
    """The finding's name in words."""
    return finding.name.replace("_", " ")


def how_sure(finding: Finding) -> str:
    """The confidence and, where it is statistics, the chance that it is wrong."""
    if finding.confidence is not Confidence.LIKELY or finding.error_chance is None:
        return "–" if finding.value is None else finding.confidence.value
    chance = finding.error_chance
    shown = f"under {_LEAST_SHOWN:.1%}" if chance < _LEAST_SHOWN else f"{chance:.1%}"
    return f"{finding.confidence.value}: wrong with chance {shown}"


def findings_table(findings: Sequence[Finding]) -> Table:
    """One row a finding."""
    rows = [(one.question, one.answer, how_sure(one), one.published or "") for one in findings]
    columns = ("<question", "<answer", "<how sure", "<the server says")
    shown = len(columns) if any(one.published for one in findings) else len(columns) - 1
    return Table("What the cache is like", columns[:shown], tuple(row[:shown] for row in rows))

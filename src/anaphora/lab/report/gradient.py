"""How the gradient experiment is presented."""

from collections.abc import Mapping
from typing import Any

from anaphora.lab.report import gradient_figures
from anaphora.lab.report.base import CsvOf, FigureOf, Findings, Presentation
from anaphora.lab.report.hit_rates import hit_rate_line
from anaphora.lab.report.lines import lines_table
from anaphora.lab.report.tails import tails_tables
from anaphora.lab.report.token_costs import costs_table
from anaphora.lab.report.words import count, interval, levels_in_words, ms, percent, signed_percent
from anaphora.report.tables import Table

PROMPT_TOKENS_NOTE = "prompt tokens are those of the shared prefix, of the chat template and of the question together"


def _tables(findings: Findings) -> list[Table]:
    fit = findings.found["two_variable"]
    return [
        _lengths(findings.found),
        *_tails(findings.found),
        lines_table(findings.found),
        *([] if fit is None else [costs_table(fit)]),
    ]


def _tails(gradient: Mapping[str, Any]) -> tuple[Table, ...]:
    rows = [
        (count(row["prompt_tokens"]), {arm: row[f"{arm}_ttft_ms_tail"] for arm in ("off", "on")})
        for row in gradient["rows"]
    ]
    return tails_tables("prompt tokens", rows)


def _lengths(gradient: Mapping[str, Any]) -> Table:
    rows = [
        (
            count(row["prompt_tokens"]),
            count(row["cached_tokens"]),
            ms(row["off_ttft_ms"]),
            ms(row["on_ttft_ms"]),
            ms(row["saved_ms_paired"]["median"]),
            interval(row["saved_ms_paired"]["interval"]),
            percent(row["reduction_percent"]),
            interval(row["reduction_percent_interval"]),
            _measured(row),
        )
        for row in gradient["rows"]
    ]
    columns = (
        "prompt tokens",
        "cached, on",
        "TTFT off (ms)",
        "TTFT on (ms)",
        "saved, paired (ms)",
        "interval (ms)",
        "reduction",
        "interval (%)",
        "measured off, on",
    )
    told = levels_in_words(row["reduction_percent_interval"] for row in gradient["rows"])
    note = f"{told}; {pays_in_words(gradient['pays'])}\n{hit_rate_line(gradient)}\n{PROMPT_TOKENS_NOTE}"
    return Table("Experiment 2: length of the shared prefix", columns, tuple(rows), note)


def _measured(row: Mapping[str, Any]) -> str:
    """How many requests of each arm have a time; of how many, where some have none."""
    parts = []
    for arm in ("off", "on"):
        missing = sum(row[f"{arm}_num_{name}"] for name in ("failed", "not_streamed", "without_token"))
        sent = row[f"{arm}_num_requests"]
        parts.append(f"{sent - missing} of {sent}" if missing else str(sent))
    return ", ".join(parts)


def pays_in_words(pays: Mapping[str, Any]) -> str:
    """From which length on caching pays, and what of that was not measured."""
    start, before = pays["from_prompt_tokens"], pays["not_shown_at_prompt_tokens"]
    if not pays["num_lengths"]:
        return "from which length on caching pays cannot be told: no pair was measured twice"
    if start is None:
        return "no measured length shows a gain that chance does not explain"
    if before is None:
        return f"caching paid at every length measured, the shortest of {count(start)} prompt tokens"
    return (
        f"caching pays from {count(start)} prompt tokens on; at {count(before)} chance may explain the difference, and "
        "nothing was measured in between"
    )


def _answer(findings: Findings) -> str:
    gradient = findings.found
    off, on = gradient["fit"]["off"], gradient["fit"]["on"]
    if off is None or on is None:
        return ""
    rows = [row for row in gradient["rows"] if row["reduction_percent"] is not None]
    if not rows:
        return ""
    slopes = [ms(line["slope_ms_per_ktoken"]) for line in (off, on)]
    falls = " and by ".join(
        f"{percent(row['reduction_percent'])} at {count(row['prompt_tokens'])} prompt tokens"
        for row in (rows[0], rows[-1])
    )
    return (
        f"Every 1,000 prompt tokens cost {slopes[0]} ms without caching and {slopes[1]} ms with it (slope "
        f"{signed_percent(gradient['slope_reduction_percent'])}); the time to first token fell by {falls}; "
        f"{pays_in_words(gradient['pays'])}."
    )


PRESENTATION = Presentation(
    question="How does the gain grow with the length of the shared prefix?",
    tables=_tables,
    answer=_answer,
    figures={
        "figure-a-ttft": FigureOf(
            "Every measured request, the medians of each length, and least squares through the medians.",
            gradient_figures.ttft_against_tokens,
        ),
        "figure-b-reduction": FigureOf(
            "Reduction of the median TTFT; the bars are intervals from pairs measured side by side.",
            gradient_figures.reduction_against_tokens,
        ),
    },
    csv={
        "table.csv": CsvOf(
            ("prompt_tokens", "off_ttft_ms", "on_ttft_ms", "saved_ms", "reduction_percent"),
            lambda findings: list(findings.found["rows"]),
        )
    },
)

"""How the gradient experiment is presented."""

from collections.abc import Mapping
from typing import Any

from anaphora.lab.report import gradient_figures
from anaphora.lab.report.base import CsvOf, FigureOf, Findings, Presentation
from anaphora.lab.report.hit_rates import hit_rate_line
from anaphora.lab.report.lines import lines_table
from anaphora.lab.report.words import count, interval, level_of, ms, percent, signed_percent
from anaphora.report.tables import Table

PROMPT_TOKENS_NOTE = "prompt tokens are those of the shared prefix, of the chat template and of the question together"


def _tables(findings: Findings) -> list[Table]:
    return [_lengths(findings.found), lines_table(findings.found)]


def _lengths(gradient: Mapping[str, Any]) -> Table:
    rows = [
        (
            count(row["prompt_tokens"]),
            count(row["cached_tokens"]),
            ms(row["off_ttft_ms"]),
            ms(row["on_ttft_ms"]),
            ms(row["saved_ms"]),
            percent(row["reduction_percent"]),
            interval(row["reduction_percent_interval"]),
        )
        for row in gradient["rows"]
    ]
    columns = (
        "prompt tokens",
        "cached, on",
        "TTFT off (ms)",
        "TTFT on (ms)",
        "saved (ms)",
        "reduction",
        f"interval at {level_of(row['reduction_percent_interval'] for row in gradient['rows'])}",
    )
    note = f"{hit_rate_line(gradient)}\n{PROMPT_TOKENS_NOTE}"
    return Table("Experiment 2: length of the shared prefix", columns, tuple(rows), note)


def _answer(findings: Findings) -> str:
    gradient = findings.found
    off, on = gradient["fit"]["off"], gradient["fit"]["on"]
    if off is None or on is None:
        return ""
    rows = [row for row in gradient["rows"] if row["reduction_percent"] is not None]
    shortest, longest = rows[0], rows[-1]
    return (
        f"Every 1,000 prompt tokens cost {ms(off['slope_ms_per_ktoken'])} ms without caching and "
        f"{ms(on['slope_ms_per_ktoken'])} ms with it (slope {signed_percent(gradient['slope_reduction_percent'])}); "
        f"the "
        f"time to first token fell by {percent(shortest['reduction_percent'])} at {count(shortest['prompt_tokens'])} "
        f"prompt tokens and by {percent(longest['reduction_percent'])} at {count(longest['prompt_tokens'])}."
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

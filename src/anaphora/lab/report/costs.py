"""How the cost experiment is presented."""

from collections.abc import Mapping
from typing import Any

from anaphora.lab.report import costs_figures
from anaphora.lab.report.base import CsvOf, FigureOf, Findings, Presentation
from anaphora.lab.report.hit_rates import hit_rate_line
from anaphora.lab.report.token_costs import NO_FIT, costs_sentence, costs_table, residuals_table
from anaphora.lab.report.words import count, interval, ms
from anaphora.report.tables import Table


def _tables(findings: Findings) -> list[Table]:
    fit = findings.found["two_variable"]
    tables = [] if fit is None else [costs_table(fit), residuals_table(fit)]
    stairs = findings.found["staircase"]
    return [*tables, *([_staircase(findings.found)] if stairs["rows"] else [])]


def _staircase(found: Mapping[str, Any]) -> Table:
    rows = [
        (
            count(row["prompt_tokens"]),
            count(row["cached_tokens"]),
            f"{row['num_requests'] - row['num_failed']} of {row['num_requests']}",
            ms(row["ttft_ms"]),
        )
        for row in found["staircase"]["rows"]
    ]
    note = f"{steps_in_words(found['staircase'])}\n{hit_rate_line(found)}".strip()
    columns = ("prompt tokens", "cached", "measured", "median TTFT (ms)")
    return Table("Staircase: one cached text, cut ever later", columns, tuple(rows), note)


def steps_in_words(stairs: Mapping[str, Any]) -> str:
    """How the cached count grows, and what one step of it saves, where that is more than noise."""
    if stairs["step_tokens"] is None:
        return "the cached count is the same for all of these prompts: no step was seen"
    step = f"cached tokens come in steps of {stairs['step_tokens']}"
    if stairs["step_ms"] is None:
        return step
    bounds = stairs["step_ms_interval"]
    told = f"{ms(stairs['step_ms'])} ms ({interval(bounds)} at 95%)"
    if bounds is not None and bounds["low"] <= 0 <= bounds["high"]:
        return f"{step}; what one step more saves is lost in the noise: {told}"
    return f"{step}; one step more takes {told} off the time to first token"


def _answer(findings: Findings) -> str:
    fit, stairs = findings.found["two_variable"], findings.found["staircase"]
    sentence = f"The experiment on token costs has no answer: {NO_FIT}." if fit is None else costs_sentence(fit)
    if stairs["step_tokens"] is None:
        return sentence
    steps = steps_in_words(stairs)
    return f"{sentence} {steps[0].upper()}{steps[1:]}."


PRESENTATION = Presentation(
    question="What does a computed prompt token cost, and what a cached one?",
    tables=_tables,
    answer=_answer,
    figures={
        "figure-costs": FigureOf(
            "Left: requests (dots) and the formula (lines) by cached beginning. Right: what the formula leaves "
            "unexplained, request by request; a cloud on one side of 0 says that the formula is too simple there.",
            costs_figures.costs,
            lambda findings: findings.found["two_variable"] is not None,
        ),
        "figure-staircase": FigureOf(
            "One cached text, cut ever later: where one block more of it is cached, less is computed.",
            costs_figures.staircase,
            lambda findings: any(row["ttft_ms"] is not None for row in findings.found["staircase"]["rows"]),
        ),
    },
    csv={
        "costs.csv": CsvOf(
            ("cell", "computed_tokens", "cached_tokens", "num_requests", "ttft_ms", "residual_ms"),
            lambda findings: [] if findings.found["two_variable"] is None else findings.found["two_variable"]["cells"],
        ),
        "staircase.csv": CsvOf(
            ("prompt_tokens", "cached_tokens", "num_requests", "num_failed", "ttft_ms"),
            lambda findings: list(findings.found["staircase"]["rows"]),
        ),
    },
)

"""How the switch experiment is presented."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anaphora.lab.experiments.base import stored_settings
from anaphora.lab.experiments.switch import SwitchSettings
from anaphora.lab.report.base import CsvOf, FigureOf, Findings, Presentation
from anaphora.lab.report.drawing import COLOURS, subtitle
from anaphora.lab.report.hit_rates import hit_rate_line
from anaphora.lab.report.tails import tails_tables
from anaphora.lab.report.words import change, count, interval, level_of, ms, percent, signed_percent
from anaphora.lab.witnesses import told_rate
from anaphora.report.colours import GRID, INK
from anaphora.report.tables import Table
from anaphora.traces.records import RequestRecord


def _tables(findings: Findings) -> list[Table]:
    return [_questions(findings.found), _summary(findings.found), *_tails(findings.found)]


def _tails(switch: Mapping[str, Any]) -> tuple[Table, ...]:
    times = (("TTFT", "ttft_ms_tail"), ("E2E", "e2e_ms_tail"))
    return tails_tables("<", [(name, {arm: switch[arm][key] for arm in ("off", "on")}) for name, key in times])


def _questions(switch: Mapping[str, Any]) -> Table:
    rows = [
        (
            f"{row['index']}{'*' if row['phase'] == 'first' else ''}",
            row["question"],
            count(row["prompt_tokens"]),
            count(row["on_cached_tokens"]),
            ms(row["off_ttft_ms"]),
            ms(row["on_ttft_ms"]),
            ms(row["off_e2e_ms"]),
            ms(row["on_e2e_ms"]),
        )
        for row in switch["rows"]
    ]
    columns = (
        "No.",
        "<question",
        "prompt tokens",
        "cached, on",
        "TTFT off (ms)",
        "TTFT on (ms)",
        "E2E off (ms)",
        "E2E on (ms)",
    )
    note = "* the first request of an arm is shown but is in no statistic: with caching on it fills the cache"
    return Table("Experiment 1: prefix caching on and off", columns, tuple(rows), note)


def _summary(switch: Mapping[str, Any]) -> Table:
    off, on, reductions = switch["off"], switch["on"], switch["reduction_percent"]
    rows = [
        (
            label,
            ms(off[f"{name}_ms_median"]),
            ms(on[f"{name}_ms_median"]),
            signed_percent(reductions[name]),
            interval(switch["reduction_percent_interval"][name]),
        )
        for name, label in (("ttft", "median TTFT (ms)"), ("e2e", "median E2E (ms)"))
    ]
    level = level_of(switch["reduction_percent_interval"].values())
    told = "reduction (%), interval" if level is None else f"reduction (%), interval at {level}"
    columns = ("<", "off", "on", "change", told)
    return Table("Medians without the first request", columns, tuple(rows), hit_rate_line(switch))


def _answer(findings: Findings) -> str:
    off, on = findings.found["off"], findings.found["on"]
    reduction = findings.found["reduction_percent"]
    if reduction["ttft"] is None:
        return "The switch experiment has no time to first token in one of its arms."
    tokens = _prefix_tokens(findings)
    hit = told_rate(findings.found["hit_rate_percent_after_first"])
    if hit == 0:
        return (
            f"Nothing came from the cache: the medians of time to first token, {ms(off['ttft_ms_median'])} ms off and "
            f"{ms(on['ttft_ms_median'])} ms on, do not differ by caching. `anaphora doctor` looks for the cause."
        )
    served = "" if hit is None else f", with {percent(hit)} of the prompt tokens served from the cache"
    ttft = change(off["ttft_ms_median"], on["ttft_ms_median"], reduction["ttft"])
    e2e = change(off["e2e_ms_median"], on["e2e_ms_median"], reduction["e2e"])
    return (
        f"Behind a shared system prompt of {tokens:,} tokens, prefix caching changed the median time to first token "
        f"{ttft} and the time of the whole answer {e2e}{served}."
    )


def _prefix_tokens(findings: Findings) -> int:
    return int(stored_settings(findings.results["run"]["settings"], SwitchSettings.name)["prefix_tokens"])


def _figure(findings: Findings, records: Sequence[RequestRecord]) -> Figure:
    rows = findings.found["rows"]
    figure = Figure(figsize=(7.6, 0.36 * len(rows) + 1.7), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, name, title in ((left, "ttft", "Time to first token (ms)"), (right, "e2e", "Whole answer, E2E (ms)")):
        for row in rows:
            _dumbbell(axes, row, name)
        axes.set_title(title)
        axes.set_xlim(left=0)
        axes.grid(axis="y", visible=False)
        axes.xaxis.set_major_formatter("{x:,.0f}")
    left.set_yticks(
        [row["index"] for row in rows],
        [f"question {row['index']}{' (first)' if row['phase'] == 'first' else ''}" for row in rows],
    )
    left.invert_yaxis()
    handles = [
        *(
            right.plot([], [], "o", color=COLOURS[arm], markersize=6.5, label=f"caching {arm}")[0]
            for arm in ("off", "on")
        ),
        right.plot([], [], "o", color=INK, markersize=6.5, markerfacecolor="none", label="first request, in no median")[
            0
        ],
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    tokens = _prefix_tokens(findings)
    title = f"{len(rows)} questions behind one system prompt of {tokens:,} tokens · {subtitle(findings.results)}"
    figure.suptitle(title, fontsize=8.5, x=0.01, ha="left")
    return figure


def _dumbbell(axes: Axes, row: Mapping[str, Any], name: str) -> None:
    values = {arm: row[f"{arm}_{name}_ms"] for arm in ("off", "on")}
    known = [value for value in values.values() if value is not None]
    if len(known) == 2:
        axes.plot(known, [row["index"]] * 2, color=GRID, linewidth=2.2, zorder=1)
    for arm, value in values.items():
        if value is not None:
            face = "none" if row["phase"] == "first" else COLOURS[arm]
            axes.plot(value, row["index"], "o", markersize=6.5, markerfacecolor=face, markeredgecolor=COLOURS[arm])


PRESENTATION = Presentation(
    question="Does prefix caching help when short questions follow one long system prompt, and by how much?",
    tables=_tables,
    answer=_answer,
    figures={
        "figure-switch": FigureOf(
            "Each question in both arms; hollow: the first request of an arm, in no statistic.", _figure
        ),
    },
    csv={
        "switch.csv": CsvOf(
            (
                *("index", "question", "phase", "prompt_tokens"),
                *("off_ttft_ms", "on_ttft_ms", "off_e2e_ms", "on_e2e_ms"),
            ),
            lambda findings: list(findings.found["rows"]),
        )
    },
)

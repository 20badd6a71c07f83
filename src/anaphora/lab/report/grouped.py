"""How experiments on groups of chats are presented: one row, and one bar in the figure, for each group."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from anaphora.lab.report.base import CsvOf, FigureOf, Findings, Presentation
from anaphora.lab.report.drawing import subtitle
from anaphora.lab.report.hit_rates import hit_rate_line
from anaphora.lab.report.words import count, interval, levels_in_words, ms, percent, signed_percent
from anaphora.lab.witnesses import told_rate
from anaphora.report.colours import GREY, INK, ON
from anaphora.report.figures import styled
from anaphora.report.tables import Table
from anaphora.traces.records import RequestRecord

_GAPLESS = "they agree"


def presentation(*, question: str, title: str, noun: str, stem: str) -> Presentation:
    """``noun``: what a group is called; ``stem``: of the figure's and the table's file, and the experiment's name."""
    return Presentation(
        question=question,
        tables=lambda findings: [_times(findings.found, title, noun), _hits(findings, noun, stem)],
        answer=lambda findings: _answer(findings.found, noun),
        figures={
            f"figure-{stem}": FigureOf(
                f"Left: reduction of the median TTFT of each {noun} without its first request, with intervals. Right: "
                "share of its prompt tokens that came from the cache; the mark is what was predicted.",
                _figure,
                lambda findings: any(row["reduction_percent"] is not None for row in findings.found["rows"]),
            )
        },
        csv={
            f"{stem}.csv": CsvOf(
                (
                    *("group", "num_requests", "num_failed", "prompt_tokens", "off_ttft_ms", "on_ttft_ms"),
                    *("reduction_percent", "off_e2e_ms", "on_e2e_ms"),
                ),
                lambda findings: list(findings.found["rows"]),
            )
        },
    )


def _times(found: Mapping[str, Any], title: str, noun: str) -> Table:
    rows = [
        (
            row["group"],
            _measured(row),
            count(row["prompt_tokens"]),
            ms(row["off_ttft_ms"]),
            ms(row["on_ttft_ms"]),
            ms(row["saved_ms_paired"]["median"]),
            interval(row["saved_ms_paired"]["interval"]),
            "–" if row["reduction_percent"] is None else percent(row["reduction_percent"]),
            interval(row["reduction_percent_interval"]),
        )
        for row in found["rows"]
    ]
    columns = (
        *(f"<{noun}", "measured off, on", "prompt tokens", "TTFT off (ms)", "TTFT on (ms)"),
        *("saved, paired (ms)", "interval (ms)", "reduction", "interval (%)"),
    )
    told = levels_in_words(row["reduction_percent_interval"] for row in found["rows"])
    note = f"medians without the first request of each {noun}, which fills the cache; {told}"
    return Table(title, columns, tuple(rows), note)


def _measured(row: Mapping[str, Any]) -> str:
    """How many requests have a time in each arm; and how many failed, if any."""
    failed = f" ({row['num_failed']} failed)" if row["num_failed"] else ""
    return f"{row['num_measured']['off']}, {row['num_measured']['on']}{failed}"


def _hits(findings: Findings, noun: str, experiment: str) -> Table:
    found, parted = findings.found, findings.results["witnesses"]["disagreements"]
    rows = [
        (
            row["group"],
            *(percent(row["hit_rate_percent"][witness]) for witness in ("usage", "metrics", "predicted")),
            percent(told_rate(row["hit_rate_percent_after_first"])),
            _gaps(
                one
                for one in parted
                if (one["experiment"], one["arm"], one["group"]) == (experiment, "on", row["group"])
            ),
        )
        for row in found["rows"]
    ]
    columns = (f"<{noun}", "usage", "/metrics", "expected", "without the first", "<gaps")
    return Table(
        "Share of prompt tokens from the cache, by three witnesses", columns, tuple(rows), hit_rate_line(found)
    )


def _gaps(parted: Iterable[Mapping[str, Any]]) -> str:
    counts = Counter(one["gap"] for one in parted)
    return "; ".join(f"{number} × {name}" for name, number in sorted(counts.items())) or _GAPLESS


def _answer(found: Mapping[str, Any], noun: str) -> str:
    told = [row for row in found["rows"] if row["reduction_percent"] is not None]
    if not told:
        return f"No {noun} has a time to first token in both arms."
    told.sort(key=lambda row: -row["reduction_percent"])
    hits = {row["group"]: told_rate(row["hit_rate_percent_after_first"]) for row in told}
    reused = [row for row in told if hits[row["group"]] != 0]
    if not reused:
        return f"Nothing came from the cache, of no {noun}: their times do not differ by caching."
    best, worst = reused[0], reused[-1]
    sentence = f"Prefix caching changed the median time to first token {_changed(best)}"
    sentence = f"{sentence}, and {_changed(worst)}." if len(reused) > 1 else f"{sentence}."
    missed = [group for group, hit in hits.items() if hit == 0]  # what their times differ by is chance
    return f"{sentence} Nothing came from the cache of {', '.join(missed)}." if missed else sentence


def _changed(row: Mapping[str, Any]) -> str:
    hit = told_rate(row["hit_rate_percent_after_first"])
    served = "" if hit is None else f", {percent(hit)} of the prompt tokens cached"
    times = f"from {ms(row['off_ttft_ms'])} to {ms(row['on_ttft_ms'])} ms"
    return f"of {row['group']} {times} ({signed_percent(row['reduction_percent'])}{served})"


def _figure(findings: Findings, records: Sequence[RequestRecord]) -> Figure:
    rows = [row for row in findings.found["rows"] if row["reduction_percent"] is not None]
    with styled():
        figure = Figure(figsize=(8.2, 0.42 * len(rows) + 1.6), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
    places = range(len(rows))
    values = [row["reduction_percent"] for row in rows]
    left.barh(places, values, height=0.55, color=ON)
    for place, row in zip(places, rows, strict=True):
        bounds = row["reduction_percent_interval"]
        if bounds is not None:
            left.plot(
                [bounds["low"], bounds["high"]], [place, place], color=INK, linewidth=1.3, marker="|", markersize=7
            )
        _hit_bar(right, place, row)
    left.axvline(0, color=INK, linewidth=0.8)
    left.set_yticks(list(places), [row["group"] for row in rows])
    left.invert_yaxis()
    left.set_title("Reduction of the median TTFT (%)")
    right.set_title("Prompt tokens from the cache (%)")
    right.set_xlim(0, 100)
    left.set_xlim(min(0, *values, *(_low(row) for row in rows)) * 1.1, 100)
    for axes in (left, right):
        axes.grid(axis="y", visible=False)
    figure.suptitle(subtitle(findings.results), fontsize=8.5, x=0.01, ha="left")
    return figure


def _low(row: Mapping[str, Any]) -> float:
    bounds = row["reduction_percent_interval"]
    return float(row["reduction_percent"] if bounds is None else min(row["reduction_percent"], bounds["low"]))


def _hit_bar(axes: Any, place: int, row: Mapping[str, Any]) -> None:
    """What was observed, and a mark at what was predicted."""
    rates = row["hit_rate_percent_after_first"]
    observed = told_rate(rates)
    if observed is not None:
        axes.barh(place, observed, height=0.55, color=GREY)
    if rates["predicted"] is not None:
        axes.plot(rates["predicted"], place, marker="D", color=INK, markersize=5, linestyle="none", clip_on=False)

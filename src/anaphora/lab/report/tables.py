"""The tables of a report as rows of text, for the terminal and for the page alike."""

from collections.abc import Mapping, Sequence
from typing import Any

from anaphora.lab.report.words import count, interval, level_of, ms, percent, signed_percent
from anaphora.report.tables import Table

WITNESS_NAMES = {"usage": "usage of the answers", "metrics": "/metrics counters", "predicted": "prediction"}

PROMPT_TOKENS_NOTE = "prompt tokens are those of the shared prefix, of the chat template and of the question together"


def tables_of(results: Mapping[str, Any]) -> list[Table]:
    """Every table of a run, in reading order."""
    experiments = results["experiments"]
    tables: list[Table] = []
    if "switch" in experiments:
        tables += [_questions(experiments["switch"]), _switch_summary(experiments["switch"])]
    if "gradient" in experiments:
        tables += [_lengths(experiments["gradient"]), lines_table(experiments["gradient"])]
    return tables


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


def _switch_summary(switch: Mapping[str, Any]) -> Table:
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
    columns = ("<", "off", "on", "change", f"reduction (%), interval at {level}")
    return Table("Medians without the first request", columns, tuple(rows), hit_rate_line(switch))


def hit_rate_line(experiment: Mapping[str, Any]) -> str:
    """The three witnesses in one line, over all on-requests and without those that filled the cache."""
    over_all, later = experiment["hit_rate_percent"], experiment["hit_rate_percent_after_first"]
    said = ", ".join(f"{name} {percent(over_all[key])}" for key, name in WITNESS_NAMES.items())
    return f"hit rate: {said}; without the requests that fill the cache {percent(later['usage'])}"


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


def lines_table(gradient: Mapping[str, Any]) -> Table:
    """The fitted lines; ``gradient`` needs ``fit`` and ``slope_reduction_percent`` only."""
    rows = [(name, *_line_cells(line)) for name, line in gradient["fit"].items()]
    columns = ("<arm", "slope (ms per 1000 tokens)", "intercept (ms)", "R²")
    title = "Least squares: TTFT = slope × prompt tokens + intercept"
    return Table(title, columns, tuple(rows), _about_lines(gradient))


def _about_lines(gradient: Mapping[str, Any]) -> str:
    """What the lines say together, what they do not say, and how far they reach."""
    off, on = gradient["fit"]["off"], gradient["fit"]["on"]
    if off is None or on is None:
        return ""
    parts = ["± is the half-width at 95%"]
    reduction = gradient["slope_reduction_percent"]
    if reduction is not None:
        parts.insert(0, f"the slope falls by {reduction:.2f}%".replace("-", "−"))
    one, other = off["intercept_interval"], on["intercept_interval"]
    if one is not None and other is not None and one["low"] <= other["high"] and other["low"] <= one["high"]:
        parts.append("the intercepts cannot be told apart")
    low, high = off["prompt_tokens_range"]
    parts.append(f"nothing is said beyond {low:,.0f} to {high:,.0f} tokens")
    return "; ".join(parts)


def _line_cells(line: Mapping[str, Any] | None) -> tuple[str, ...]:
    if line is None:
        return ("–",) * 3
    cells = (
        f"{line['slope_ms_per_ktoken']:,.2f}{_half_width(line['slope_interval'])}",
        f"{line['intercept_ms']:,.2f}{_half_width(line['intercept_interval'])}",
        "–" if line["r2"] is None else f"{line['r2']:.4f}",
    )
    return tuple(cell.replace("-", "−") for cell in cells)


def _half_width(interval: Mapping[str, Any] | None) -> str:
    return "" if interval is None else f" ± {(interval['high'] - interval['low']) / 2:,.2f}"


def trust_table(results: Mapping[str, Any]) -> Table:
    """The checks."""
    rows = tuple((check["name"], check["status"], check["seen"]) for check in results["trust"])
    return Table("Can these numbers be trusted?", ("<check", "<status", "<what was seen"), rows)


def plain_rows(value: Mapping[str, Any], prefix: str = "") -> Sequence[tuple[str, str]]:
    """A nested mapping as pairs of dotted name and text."""
    rows: list[tuple[str, str]] = []
    for name, item in value.items():
        if isinstance(item, Mapping):
            rows += plain_rows(item, f"{prefix}{name}.")
        elif item not in (None, "", [], ()):
            text = ", ".join(str(one) for one in item) if isinstance(item, list | tuple) else str(item)
            rows.append((prefix + name, text))
    return rows

"""The tables of a load run, for the terminal and the page alike: which there are, and those that set arm beside arm."""

from collections.abc import Mapping
from typing import Any

from anaphora.lab.load.levels import level_name
from anaphora.lab.load.report import cell_tables
from anaphora.lab.load.report.words import NONE, level_column, limits_text, rate_text
from anaphora.lab.report.bills import money_tables
from anaphora.lab.report.hit_rates import WITNESS_NAMES
from anaphora.lab.report.witnesses import share_of_tokens
from anaphora.lab.report.words import ms, signed_percent
from anaphora.report.tables import Table

ARMS = ("off", "on")


def tables_of(results: Mapping[str, Any]) -> list[Table]:
    """The tables that everybody reads, in that order, each narrow enough for a terminal; empty ones are left out."""
    load = results["load"]
    tables = [cell_tables.first_token(load), cell_tables.between_tokens(load), cell_tables.throughput(load)]
    if load["loop"] != "closed":
        tables.append(cell_tables.from_due(load))
    if load["slo"]:
        tables.append(cell_tables.goodput(load))
    tables += [_change(load), _closing(load), *money_tables(results, of="level")]
    return [table for table in tables if table.rows]


def details_of(results: Mapping[str, Any]) -> list[Table]:
    """What a page has room for beside."""
    load = results["load"]
    return [table for table in (cell_tables.intervals(load), cell_tables.windows(load), _refused(load)) if table.rows]


def witnesses_table(results: Mapping[str, Any]) -> Table:
    """Cached tokens by level and arm as each witness counts them, and what explains their gaps."""
    loop = results["load"]["loop"]
    rows = tuple(
        (
            level_name(loop, one["level"]),
            one["arm"],
            *(share_of_tokens(one[witness]) for witness in WITNESS_NAMES),
            _explained(one),
        )
        for one in results["witnesses"]
    )
    columns = ("<level", "<caching", "usage", "metrics", "predicted", "<what explains the gaps")
    return Table("Cached tokens of whole stages", columns, rows)


def _explained(row: Mapping[str, Any]) -> str:
    parts = [f"{number} × {gap}" for gap, number in row["gaps"].items()]
    if row["not_predicted"] is not None:
        parts.append(f"not predicted: {row['not_predicted']}")
    told, counted = row["usage"], row["metrics"]
    if told is not None and counted is not None and tuple(told) != tuple(counted):
        foreign = counted[1] > told[1] and row["num_unanswered"] == 0
        parts.append(
            "counters hold more than these requests: foreign traffic"
            if foreign
            else f"counters and answers differ: {row['num_unanswered']} requests were not answered"
            if row["num_unanswered"]
            else "counters and answer differ: counted at another moment, or by another rule"
        )
    return "; ".join(parts) or "they agree"


def refusals_of(results: Mapping[str, Any]) -> list[str]:
    """What is not reported, and why, a line each."""
    return [f"{level}, caching {arm}: not reported: {why}" for level, arm, why in _refused(results["load"]).rows]


def _change(load: Mapping[str, Any]) -> Table:
    is_closed = load["loop"] == "closed"
    last = ("output tokens/s",) if is_closed else ()
    columns = (level_column(load["loop"]), "TTFT P50 off", "TTFT P50 on", "change", "95% interval", *last)
    rows = tuple(
        (
            f"{row['level']:g}",
            ms(row["off"]["ttft_ms"]["p50"]["value"]),
            ms(row["on"]["ttft_ms"]["p50"]["value"]),
            signed_percent(row["ttft_p50_reduction_percent"]),
            _signed_interval(row["ttft_p50_reduction_interval"]),
            *((signed_percent(_negated(row["output_tokens_per_s_gain_percent"])),) if is_closed else ()),
        )
        for row in load["rows"]
        if row["ttft_p50_reduction_percent"] is not None
    )
    note = "Bootstrap over requests, as if they were independent; under load neighbours are not quite."
    return Table("What prefix caching changes", columns, rows, note)


def _closing(load: Mapping[str, Any]) -> Table:
    closing = load["closing"]
    lowest, highest = (level_name(load["loop"], closing[name]) for name in ("lowest_level", "highest_level"))
    rows = [
        (f"TPOT P50, ms ({lowest})", *(ms(closing[arm]["tpot_p50_ms"]) for arm in ARMS)),
        (f"output tokens/s ({highest})", *(rate_text(closing[arm]["output_tokens_per_s"]) for arm in ARMS)),
    ]
    if load["slo"]:
        best = (rate_text(closing[arm]["goodput_output_tokens_per_s"]) for arm in ARMS)
        rows.append(("best goodput, output tokens/s", *best))
    note = f"Goodput: tokens of requests within {limits_text(load['slo'])}, at the best level." if load["slo"] else ""
    return Table("In short", ("<", "caching off", "caching on"), tuple(rows), note)


def _refused(load: Mapping[str, Any]) -> Table:
    rows = tuple(
        (level_name(load["loop"], row["level"]), arm, str(row[arm]["refused"]))
        for row in load["rows"]
        for arm in ARMS
        if row[arm]["refused"] is not None
    )
    return Table("Not reported", ("<level", "<caching", "<why"), rows)


def _negated(value: float | None) -> float | None:
    return None if value is None else -value


def _signed_interval(value: Mapping[str, Any] | None) -> str:
    return NONE if value is None else f"{signed_percent(value['high'])} to {signed_percent(value['low'])}"

"""The tables of a load run, for the terminal and the page alike."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from anaphora.lab.load.report.words import (
    NONE,
    bounds_text,
    level_column,
    level_name,
    limits_text,
    quantile_text,
    rate_text,
    share_text,
)
from anaphora.lab.report.words import count, ms, percent, signed_percent
from anaphora.report.tables import Table

ARMS = ("off", "on")
QUANTILES = ("p50", "p90", "p99")
QUANTILE_COLUMNS = ("P50", "P90", "P99")


def tables_of(results: Mapping[str, Any]) -> list[Table]:
    """The tables that everybody reads, in that order, each narrow enough for a terminal; empty ones are left out."""
    load = results["load"]
    tables = [_first_token(load), _between_tokens(load), _throughput(load)]
    if load["loop"] != "closed":
        tables.append(_from_due(load))
    if load["slo"]:
        tables.append(_goodput(load))
    tables += [_change(load), _closing(load)]
    return [table for table in tables if table.rows]


def details_of(results: Mapping[str, Any]) -> list[Table]:
    """What a page has room for beside."""
    load = results["load"]
    return [table for table in (_intervals(load), _windows(load), _refused(load)) if table.rows]


def refusals_of(results: Mapping[str, Any]) -> list[str]:
    """What is not reported, and why, a line each."""
    return [f"{level}, caching {arm}: not reported: {why}" for level, arm, why in _refused(results["load"]).rows]


def cells(load: Mapping[str, Any]) -> Iterator[tuple[float, str, Mapping[str, Any]]]:
    """Level, arm and figures of every cell that was reached."""
    for row in load["rows"]:
        for arm in ARMS:
            if row[arm]["refused"] is None:
                yield row["level"], arm, row[arm]


def _first_token(load: Mapping[str, Any]) -> Table:
    columns = (level_column(load["loop"]), "caching", "answers", "failed", *QUANTILE_COLUMNS)
    rows = tuple(
        (
            f"{level:g}",
            arm,
            str(cell["num_measured"] - cell["num_failed"]),
            str(cell["num_failed"]),
            *_quantiles(cell, "ttft_ms"),
        )
        for level, arm, cell in cells(load)
    )
    note = (
        "Milliseconds from the sending to the first generated token. A dash: too few answers for that quantile (P90 "
        "takes 10, P99 takes 100). Failed requests are in no time."
    )
    return Table("Time to first token (TTFT)", columns, rows, note)


def _between_tokens(load: Mapping[str, Any]) -> Table:
    names = (f"{time} {quantile}" for time in ("TPOT", "ITL") for quantile in QUANTILE_COLUMNS)
    columns = (level_column(load["loop"]), "caching", *names)
    rows = tuple((f"{level:g}", arm, *_quantiles(cell, "tpot_ms", "itl_ms")) for level, arm, cell in cells(load))
    note = (
        "Milliseconds. TPOT: per output token after the first, one value an answer. ITL: every gap between two events "
        "that carry tokens."
    )
    return Table("Between tokens", columns, rows, note)


def _throughput(load: Mapping[str, Any]) -> Table:
    columns = (
        level_column(load["loop"]),
        "caching",
        "output tokens a second",
        "requests a second",
        "E2E P50, ms",
        "open at once",
        "hit rate, usage",
        "hit rate, metrics",
    )
    rows = tuple(
        (
            f"{level:g}",
            arm,
            rate_text(cell["output_tokens_per_s"]),
            rate_text(cell["requests_per_s"]),
            quantile_text(cell["e2e_ms"]["p50"]),
            f"{cell['mean_open']:.1f}",
            percent(cell["hit_rate_percent"]["usage"]),
            percent(cell["hit_rate_percent"]["metrics"]),
        )
        for level, arm, cell in cells(load)
    )
    note = (
        "Tokens and answers that arrived within the window, of whatever request. Hit rate: cached share of prompt "
        "tokens; metrics count whole stages, warm-up included."
    )
    return Table("Throughput", columns, rows, note)


def _windows(load: Mapping[str, Any]) -> Table:
    columns = (
        level_column(load["loop"]),
        "caching",
        "window, s",
        "stages",
        "processes",
        "most open at once",
        "prompt tokens, mean",
        "output tokens, mean",
        "worst loop lag, ms",
    )
    rows = tuple(
        (
            f"{level:g}",
            arm,
            f"{cell['window_s']:.1f}",
            str(cell["num_stages"]),
            str(cell["num_processes"]),
            str(cell["most_open"]),
            count(cell["mean_prompt_tokens"]),
            count(cell["mean_output_tokens"]),
            ms(cell["worst_loop_lag_ms"]),
        )
        for level, arm, cell in cells(load)
    )
    return Table("What was measured", columns, rows)


def _from_due(load: Mapping[str, Any]) -> Table:
    columns = (
        level_column(load["loop"]),
        "caching",
        *(f"TTFT {quantile}" for quantile in QUANTILE_COLUMNS),
        "E2E P50",
        "sent late, P50",
        "P99",
    )
    rows = tuple(
        (
            f"{level:g}",
            arm,
            *_quantiles(cell["from_due"], "ttft_ms"),
            quantile_text(cell["from_due"]["e2e_ms"]["p50"]),
            quantile_text(cell["lateness_ms"]["p50"]),
            quantile_text(cell["lateness_ms"]["p99"]),
        )
        for level, arm, cell in cells(load)
    )
    note = "Milliseconds from when a request was due: what a user waits, also where the client was late in sending."
    return Table("Latency from when requests were due", columns, rows, note)


def _goodput(load: Mapping[str, Any]) -> Table:
    limits = load["slo"]
    columns = (
        level_column(load["loop"]),
        "caching",
        "within, % (95% interval)",
        *(f"{name.removesuffix('_ms').upper()} alone" for name in limits),
        "requests a second",
        "output tokens a second",
    )
    rows = tuple(
        (
            f"{level:g}",
            arm,
            share_text(cell["goodput"]),
            *(
                percent(100 * cell["goodput"]["num_within_by_limit"][name] / cell["goodput"]["num_requests"])
                for name in limits
            ),
            rate_text(cell["goodput"]["requests_per_s"]),
            rate_text(cell["goodput"]["output_tokens_per_s"]),
        )
        for level, arm, cell in cells(load)
    )
    since = "when they were due" if load["loop"] != "closed" else "the sending"
    note = f"Requests within every limit, times from {since}; failed ones are within none. Wilson's 95% interval."
    return Table(f"Goodput: {limits_text(limits)}", columns, rows, note)


def _change(load: Mapping[str, Any]) -> Table:
    is_closed = load["loop"] == "closed"
    last = ("output tokens/s",) if is_closed else ()
    columns = (level_column(load["loop"]), "TTFT P50 off", "on", "change", "95% interval", *last)
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


def _intervals(load: Mapping[str, Any]) -> Table:
    columns = (
        level_column(load["loop"]),
        "caching",
        *(f"{name} {quantile}" for name in ("TTFT", "TPOT") for quantile in ("P50", "P90", "P99")),
        "samples",
    )
    rows = tuple(
        (
            f"{level:g}",
            arm,
            *(bounds_text(cell[name][quantile]) for name in ("ttft_ms", "tpot_ms") for quantile in QUANTILES),
            f"{cell['ttft_ms']['num_samples']} / {cell['tpot_ms']['num_samples']}",
        )
        for level, arm, cell in cells(load)
    )
    note = "95% intervals from order statistics, in milliseconds; …: the sample does not reach that far."
    return Table("How sure the quantiles are", columns, rows, note)


def _refused(load: Mapping[str, Any]) -> Table:
    rows = tuple(
        (level_name(load["loop"], row["level"]), arm, str(row[arm]["refused"]))
        for row in load["rows"]
        for arm in ARMS
        if row[arm]["refused"] is not None
    )
    return Table("Not reported", ("<level", "<caching", "<why"), rows)


def csv_rows(load: Mapping[str, Any]) -> tuple[Sequence[str], list[Sequence[Any]]]:
    """``table.csv``: one line a level and arm; an unknown value, and every figure of what was refused, is empty."""
    times = ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")
    plain = ("num_measured", "num_failed", "requests_per_s", "output_tokens_per_s", "mean_open", "window_s")
    columns = [
        *("loop", "level", "caching", "refused"),
        *plain,
        *(f"{time.removesuffix('_ms')}_{quantile}_ms" for time in times for quantile in QUANTILES),
        *("hit_rate_percent_usage", "goodput_share", "goodput_requests_per_s", "goodput_output_tokens_per_s"),
    ]
    rows: list[Sequence[Any]] = []
    for row in load["rows"]:
        for arm in ARMS:
            cell = row[arm]
            head = [load["loop"], f"{row['level']:g}", arm, cell["refused"] or ""]
            if cell["refused"] is not None:
                rows.append([*head, *[""] * (len(columns) - len(head))])
                continue
            found = [cell[time][quantile] for time in times for quantile in QUANTILES]
            goodput = cell["goodput"] or {}
            values = [
                *(cell[name] for name in plain),
                *(None if one is None else one["value"] for one in found),
                cell["hit_rate_percent"]["usage"],
                *(goodput.get(name) for name in ("share", "requests_per_s", "output_tokens_per_s")),
            ]
            rows.append([*head, *(_rounded(value) for value in values)])
    return columns, rows


def _quantiles(times: Mapping[str, Any], *names: str) -> list[str]:
    return [quantile_text(times[name][quantile]) for name in names for quantile in QUANTILES]


def _rounded(value: Any) -> Any:
    return "" if value is None else round(value, 4) if isinstance(value, float) else value


def _negated(value: float | None) -> float | None:
    return None if value is None else -value


def _signed_interval(value: Mapping[str, Any] | None) -> str:
    return NONE if value is None else f"{signed_percent(value['high'])} to {signed_percent(value['low'])}"

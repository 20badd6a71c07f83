"""The tables of a load run that have one line for each level and arm."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from anaphora.lab.load.report.words import (
    bounds_text,
    level_column,
    limits_text,
    quantile_text,
    rate_text,
    share_text,
)
from anaphora.lab.report.words import count, ms, percent
from anaphora.report.tables import Table

_QUANTILES = ("p50", "p90", "p99")

Cell = Mapping[str, Any]
"""The figures of a level and arm."""


def first_token(load: Mapping[str, Any]) -> Table:
    """Times to first token."""
    return _table(
        load,
        "Time to first token (TTFT)",
        ("answers", "failed", *_names("")),
        lambda cell: (
            str(cell["num_measured"] - cell["num_failed"]),
            str(cell["num_failed"]),
            *_times(cell, "ttft_ms"),
        ),
        "Milliseconds from the sending to the first generated token. A dash: too few answers for that quantile (P90 "
        "takes 10, P99 takes 100). Failed requests are in no time.",
    )


def between_tokens(load: Mapping[str, Any]) -> Table:
    """Times from token to token."""
    return _table(
        load,
        "Between tokens",
        _names("TPOT ", "ITL "),
        lambda cell: _times(cell, "tpot_ms", "itl_ms"),
        "Milliseconds. TPOT: per output token after the first, one value an answer. ITL: every gap between two events "
        "that carry tokens.",
    )


def throughput(load: Mapping[str, Any]) -> Table:
    """What went through, and how much of it came from the cache."""
    return _table(
        load,
        "Throughput",
        (
            "output tokens a second",
            "requests a second",
            "E2E P50, ms",
            "open at once",
            "hit rate, usage",
            "hit rate, metrics",
        ),
        lambda cell: (
            rate_text(cell["output_tokens_per_s"]),
            rate_text(cell["requests_per_s"]),
            quantile_text(cell["e2e_ms"]["p50"]),
            f"{cell['mean_open']:.1f}",
            percent(cell["hit_rate_percent"]["usage"]),
            percent(cell["hit_rate_percent"]["metrics"]),
        ),
        "Tokens and answers that arrived within the window, of whatever request. Hit rate: cached share of prompt "
        "tokens; metrics count whole stages, warm-up included.",
    )


def windows(load: Mapping[str, Any]) -> Table:
    """What stands behind the figures."""
    return _table(
        load,
        "What was measured",
        (
            "window, s",
            "stages",
            "processes",
            "most open at once",
            "prompt tokens, mean",
            "output tokens, mean",
            "worst loop lag, ms",
        ),
        lambda cell: (
            f"{cell['window_s']:.1f}",
            str(cell["num_stages"]),
            str(cell["num_processes"]),
            str(cell["most_open"]),
            count(cell["mean_prompt_tokens"]),
            count(cell["mean_output_tokens"]),
            ms(cell["worst_loop_lag_ms"]),
        ),
    )


def from_due(load: Mapping[str, Any]) -> Table:
    """Times from when requests were due; for loops that are not closed."""
    return _table(
        load,
        "Latency from when requests were due",
        (*_names("TTFT "), "E2E P50", "sent late, P50", "sent late, P99"),
        lambda cell: (
            *_times(cell["from_due"], "ttft_ms"),
            quantile_text(cell["from_due"]["e2e_ms"]["p50"]),
            quantile_text(cell["lateness_ms"]["p50"]),
            quantile_text(cell["lateness_ms"]["p99"]),
        ),
        "Milliseconds from when a request was due: what a user waits, also where the client was late in sending.",
    )


def goodput(load: Mapping[str, Any]) -> Table:
    """Requests within the limits that were set."""
    limits = load["slo"]
    since = "when they were due" if load["loop"] != "closed" else "the sending"
    return _table(
        load,
        f"Goodput: {limits_text(limits)}",
        (
            "within, % (95% interval)",
            *(f"{name.removesuffix('_ms').upper()} alone" for name in limits),
            "requests a second",
            "output tokens a second",
        ),
        lambda cell: (
            share_text(cell["goodput"]),
            *(
                percent(100 * cell["goodput"]["num_within_by_limit"][name] / cell["goodput"]["num_requests"])
                for name in limits
            ),
            rate_text(cell["goodput"]["requests_per_s"]),
            rate_text(cell["goodput"]["output_tokens_per_s"]),
        ),
        f"Requests within every limit, times from {since}; failed ones are within none. Wilson's 95% interval.",
    )


def intervals(load: Mapping[str, Any]) -> Table:
    """How far the quantiles can be trusted."""
    return _table(
        load,
        "How sure the quantiles are",
        (*_names("TTFT ", "TPOT "), "samples"),
        lambda cell: (
            *(bounds_text(cell[name][quantile]) for name in ("ttft_ms", "tpot_ms") for quantile in _QUANTILES),
            f"{cell['ttft_ms']['num_samples']} / {cell['tpot_ms']['num_samples']}",
        ),
        "95% intervals from order statistics, in milliseconds; …: the sample does not reach that far.",
    )


def _table(
    load: Mapping[str, Any],
    title: str,
    columns: Iterable[str],
    texts: Callable[[Cell], Iterable[str]],
    note: str = "",
) -> Table:
    """A line for every cell that was reached, ``texts`` behind its level and arm."""
    rows = tuple(
        (f"{row['level']:g}", arm, *texts(row[arm]))
        for row in load["rows"]
        for arm in ("off", "on")
        if row[arm]["refused"] is None
    )
    return Table(title, (level_column(load["loop"]), "caching", *columns), rows, note)


def _names(*before: str) -> list[str]:
    return [f"{name}{quantile.upper()}" for name in before for quantile in _QUANTILES]


def _times(times: Cell, *names: str) -> list[str]:
    return [quantile_text(times[name][quantile]) for name in names for quantile in _QUANTILES]

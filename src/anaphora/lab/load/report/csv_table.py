"""``table.csv`` of a load run."""

from collections.abc import Mapping, Sequence
from typing import Any

_ARMS = ("off", "on")
_TIMES = ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")
_QUANTILES = ("p50", "p90", "p99")


def csv_rows(load: Mapping[str, Any]) -> tuple[Sequence[str], list[Sequence[Any]]]:
    """Columns and rows, one row a level and arm; an unknown value, and every figure of what was refused, is empty."""
    plain = ("num_measured", "num_failed", "requests_per_s", "output_tokens_per_s", "mean_open", "window_s")
    columns = [
        *("loop", "level", "caching", "refused"),
        *plain,
        *(f"{time.removesuffix('_ms')}_{quantile}_ms" for time in _TIMES for quantile in _QUANTILES),
        *("hit_rate_percent_usage", "goodput_share", "goodput_requests_per_s", "goodput_output_tokens_per_s"),
    ]
    rows: list[Sequence[Any]] = []
    for row in load["rows"]:
        for arm in _ARMS:
            cell = row[arm]
            head = [load["loop"], f"{row['level']:g}", arm, cell["refused"] or ""]
            if cell["refused"] is not None:
                rows.append([*head, *[""] * (len(columns) - len(head))])
                continue
            found = [cell[time][quantile] for time in _TIMES for quantile in _QUANTILES]
            goodput = cell["goodput"] or {}
            values = [
                *(cell[name] for name in plain),
                *(None if one is None else one["value"] for one in found),
                cell["hit_rate_percent"]["usage"],
                *(goodput.get(name) for name in ("share", "requests_per_s", "output_tokens_per_s")),
            ]
            rows.append([*head, *(_rounded(value) for value in values)])
    return columns, rows


def _rounded(value: Any) -> Any:
    return "" if value is None else round(value, 4) if isinstance(value, float) else value

"""A published table of times, read with suspicion and fitted like our own."""

import csv
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anaphora.errors import TraceError
from anaphora.lab.experiments.lines import fit_rows, line_as_stored, slope_reduction
from anaphora.lab.experiments.summary import percent

COLUMNS = ("prompt_tokens", "off_ttft_ms", "on_ttft_ms")


def fit_table(path: Path) -> dict[str, Any]:
    """``fit`` and ``slope_reduction_percent`` of a CSV file, as in ``results.json``.

    An empty cell is a value that was not measured. Raises :class:`TraceError` for what cannot be fitted.
    """
    rows = read_table(path)
    lines = fit_rows(rows)
    for arm in ("off", "on"):
        if lines[arm] is None:
            raise TraceError(f"{path}: a line needs two rows with different prompt_tokens and a value in {arm}_ttft_ms")
    return {
        "fit": {name: None if line is None else line_as_stored(line) for name, line in lines.items()},
        "slope_reduction_percent": percent(slope_reduction(lines)),
    }


def read_table(path: Path) -> list[dict[str, float | None]]:
    """The three columns of a CSV file, row by row."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            names = [name.strip() for name in reader.fieldnames or ()]
            missing = [name for name in COLUMNS if name not in names]
            if missing:
                raise TraceError(f"{path} lacks the column {missing[0]}: its first line must name {', '.join(COLUMNS)}")
            reader.fieldnames = names
            return [_row(path, reader.line_num, row) for row in reader]
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"{path} is no CSV table in UTF-8 ({error})") from error


def _row(path: Path, line: int, row: Mapping[str, str | None]) -> dict[str, float | None]:
    return {name: _number(f"{path}, line {line}, {name}", row[name]) for name in COLUMNS}


def _number(place: str, text: str | None) -> float | None:
    if text is None or not text.strip():
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise TraceError(
            f"{place}: {text.strip()!r} is no time or count; write a plain number, or nothing if unmeasured"
        )
    return value

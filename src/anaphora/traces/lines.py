"""The rows of a text file that may be compressed, marked, blank in places or cut off."""

import gzip
import json
import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from anaphora.errors import TraceError
from anaphora.traces.findings import FindingKind, Findings

GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Row(NamedTuple):
    """A parsed line. ``line`` counts from 1, blank lines too."""

    line: int
    value: Any


def first_line(path: Path) -> str:
    """The first line that is not blank, for telling formats apart; empty if there is none."""
    return next((text for _, text, _ in _lines(path, Findings()) if text), "")


def json_rows(path: Path, findings: Findings) -> Iterator[Row]:
    """Every line that is JSON; what is not is counted in ``findings``, and told from an end that was cut off."""
    for line, text, is_whole in _lines(path, findings):
        if not text:
            findings.add(FindingKind.BLANK, line)
            continue
        try:
            value = _DECODER.decode(text)
        except (ValueError, RecursionError) as error:
            findings.add(FindingKind.DAMAGED if is_whole else FindingKind.CUT_OFF, line, str(error))
            continue
        yield Row(line, value)


def _lines(path: Path, findings: Findings) -> Iterator[tuple[int, str, bool]]:
    """Number, text without surrounding space, and whether another line or a line's end follows."""
    number = 0
    try:
        with _open(path) as file:
            for number, data in enumerate(file, 1):
                if number == 1 and data.startswith(BYTE_ORDER_MARK):
                    findings.add(FindingKind.BYTE_ORDER_MARK, 1)
                    data = data.removeprefix(BYTE_ORDER_MARK)
                yield number, data.decode("utf-8", "replace").strip(), data.endswith(b"\n")
    except (EOFError, zlib.error) as error:
        findings.add(FindingKind.CUT_OFF, number + 1, f"the compressed file is incomplete ({error})")
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror or error}") from error


def _open(path: Path) -> IO[bytes]:
    """By content, not by name: copies lose their endings."""
    with path.open("rb") as file:
        is_compressed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    return cast(IO[bytes], gzip.open(path)) if is_compressed else path.open("rb")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
"""One for all lines: to make it takes as long as to parse a short one."""


def get_count(row: dict[str, Any], name: str) -> int | None:
    """A field that counts something, or ``None`` if it is not there.

    Raises:
        ValueError: it is there and is no whole number from 0 on.
    """
    value = row.get(name)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} must be a whole number from 0 on, got {value!r}")
    return value


def get_number(row: dict[str, Any], name: str) -> float | None:
    """A finite number, or ``None`` if the field is not there."""
    value = row.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} must be a number, got {value!r}")
    return float(value)


def get_text(row: dict[str, Any], *names: str) -> str | None:
    """The first of the named fields that is there, as text."""
    return next((str(row[name]) for name in names if row.get(name) is not None), None)

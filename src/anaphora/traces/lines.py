"""The rows of a text file that may be compressed, marked, blank in places or cut off."""

import gzip
import json
import math
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from anaphora.errors import TraceError
from anaphora.traces.findings import FindingKind, Findings

GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HALF_A_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class Row(NamedTuple):
    """A parsed line. ``line`` counts from 1, blank lines too."""

    line: int
    value: Any


def first_line(path: Path) -> str:
    """The first line that is not blank, for telling formats apart.

    Raises:
        TraceError: there is none, or it is no text in UTF-8's manner.
    """
    findings = Findings()
    text = next((data for _, data, _ in _lines(path, findings) if data), b"")
    if text.startswith(UTF_16_MARKS):
        raise TraceError(f"{path} is UTF-16: save it as UTF-8")
    if not text:
        cut_off = next((found.detail for found in findings.all() if found.kind is FindingKind.CUT_OFF), None)
        raise TraceError(f"{path} has not one whole line: {cut_off}" if cut_off else f"{path} is empty")
    return text.decode("utf-8", "replace")


def json_rows(path: Path, findings: Findings) -> Iterator[Row]:
    """Every line that is JSON; what is not is counted in ``findings``, and told from an end that was cut off."""
    for line, data, is_whole in _lines(path, findings):
        if not data:
            findings.add(FindingKind.BLANK, line)
            continue
        try:
            # Bytes that are no text are no row: with a mark in their place, texts that differ would be equal.
            value = _DECODER.decode(data.decode("utf-8"))
            if _HALF_A_PAIR.search(data):
                _refuse_half_characters(value)
        except (ValueError, RecursionError) as error:
            findings.add(FindingKind.DAMAGED if is_whole else FindingKind.CUT_OFF, line, str(error))
            continue
        yield Row(line, value)


def _lines(path: Path, findings: Findings) -> Iterator[tuple[int, bytes, bool]]:
    """Number, bytes without surrounding space, and whether another line or a line's end follows."""
    number = 0
    try:
        with _open(path) as file:
            for number, data in enumerate(file, 1):
                if number == 1 and data.startswith(BYTE_ORDER_MARK):
                    findings.add(FindingKind.BYTE_ORDER_MARK, 1)
                    data = data.removeprefix(BYTE_ORDER_MARK)
                yield number, data.strip(), data.endswith(b"\n")
    except (EOFError, zlib.error) as error:
        findings.add(FindingKind.CUT_OFF, number + 1, f"the compressed file is incomplete ({error})")
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror or error}") from error


def _open(path: Path) -> IO[bytes]:
    """By content, not by name: copies lose their endings."""
    with path.open("rb") as file:
        is_compressed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    return cast(IO[bytes], gzip.open(path)) if is_compressed else path.open("rb")


def _refuse_half_characters(value: Any) -> None:
    """Escapes may spell half of a surrogate pair: no text, since nobody can send it on."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair is no character") from None


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
    for name in names:
        value = row.get(name)
        if value is not None:
            return str(value)
    return None

"""Files of JSON lines that a run writes as it goes, each with its ``kind``; the last may be cut off."""

import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self, TypeVar

from anaphora.errors import TraceError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Value = TypeVar("Value")


def as_line(kind: str, value: "DataclassInstance") -> str:
    """One line of the file, without its end."""
    return json.dumps({"kind": kind, **dataclasses.asdict(value)}, ensure_ascii=False, allow_nan=False)


def read_object(line: str) -> dict[str, Any]:
    """The line as its JSON object. Raises :class:`ValueError` if it is none."""
    value = json.loads(line)
    if not isinstance(value, dict):
        raise ValueError(f"a JSON object is wanted, not {line[:20]}")
    return value


class LineWriter:
    """Appends lines to a new file, or, if it ``resumes``, to one that is there; each is on its way to the disk when the
    call returns.

    Raises:
        TraceError: the file is there, and nothing is to be resumed.
    """

    def __init__(self, path: Path, *, resumes: bool = False) -> None:
        if path.exists() and not resumes:
            raise TraceError(f"{path} exists already: give another folder with --out")
        if resumes:
            _end_last_line(path)
        self._file: IO[str] = path.open(
            "a" if resumes else "x",
            encoding="utf-8",
            errors="backslashreplace",  # half of a surrogate pair in a server's words; JSON escapes it the same way
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def write_line(self, line: str) -> None:
        """One more line."""
        self._file.write(line + "\n")
        self._file.flush()


def _end_last_line(path: Path) -> None:
    """A writer that was killed may have left the beginning of a line at the end: it goes. A whole one is given its
    end, since :func:`read_lines` counts it."""
    text = path.read_bytes()
    begin = text.rfind(b"\n") + 1
    if begin == len(text):
        return
    try:
        read_object(text[begin:].decode("utf-8"))
    except ValueError:
        os.truncate(path, begin)
    else:
        with path.open("ab") as file:
            file.write(b"\n")


def read_lines(path: Path, parse: Callable[[str], Value], *, of: str, command: str) -> Iterator[Value]:
    """What ``parse`` makes of each line. A last one that was cut off in the middle of writing is left out.

    Raises:
        TraceError: the file cannot be read, or ``parse`` finds that a line is no record ``of`` ``command``, with its
            number.
    """
    try:
        whole, _, rest = path.read_bytes().rpartition(b"\n")
        # not splitlines: an answer may hold U+2028; and what was cut off may end within a character
        lines = [*whole.decode("utf-8").split("\n"), rest.decode("utf-8", "replace")]
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise TraceError(f"cannot read {path} ({why}): give a report folder of `{command}`") from error
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            yield parse(line)
        except (ValueError, TypeError, KeyError) as error:
            if number == len(lines):
                return  # the writer was stopped within this line
            why = f"{error.args[0]} is missing" if isinstance(error, KeyError) else error
            raise TraceError(f"{path}, line {number}: not a record of {of} ({why})") from error

"""Raw records of a load run, in JSON lines: what was asked, then every request, window and beat as they come.

``run`` is the first line. ``request`` lines come in the order in which requests ended; ``window`` closes a stage and
says which part of it counts; ``beat`` lines tell once a second how busy a sending process was. Times are readings of
the machine's monotonic clock in nanoseconds, which all its processes share; unknown is ``null``.
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from anaphora.errors import TraceError
from anaphora.traces import line_file
from anaphora.traces.records import Arm, CounterReading

FORMAT_VERSION = 1
RECORDS_FILE = "load.jsonl"

Loop = Literal["closed", "open", "replay"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One level of load on one arm. ``level``: clients of a closed loop, requests per second of an open one, speed of
    a replay. ``round``: which repetition of the sweep."""

    number: int
    loop: Loop
    level: float
    arm: Arm
    round: int
    num_processes: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LoadRecord:
    """One request. ``token_offsets_ns``: arrival of each event with generated tokens, counted from ``sent_ns``."""

    stage: int
    process: int
    client: int
    """Closed loop: which client asked. Otherwise 0."""
    number: int
    """Which request of the workload it was: equal numbers of two arms ask the same."""
    intended_ns: int
    """When it was due: by the schedule or, in a closed loop, when its client's answer before was over."""
    sent_ns: int
    first_byte_ns: int | None
    end_ns: int
    token_offsets_ns: tuple[int, ...]
    streamed: bool
    connection_reused: bool
    max_tokens: int
    usage: Mapping[str, Any] | None
    finish_reason: str | None
    error: str | None
    abandoned: bool = False
    """The run was stopped while this request was under way: it says nothing of the server."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The end of a stage: requests due within [``begin_ns``, ``end_ns``) are measured, those before are warm-up and
    those after keep the load up until the measured ones are answered. ``None``: it never came so far.

    ``stopped``: why the stage ended before its time.
    """

    stage: int
    begin_ns: int | None
    end_ns: int | None
    num_due: int | None
    """Requests that the schedule has within the window; ``None`` in a closed loop."""
    load_until_ns: int | None
    """When the load ended: later than the last measured answer, if all went well."""
    counters_before: CounterReading | None
    counters_after: CounterReading | None
    stopped: str | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A second of a sending process: its loop's longest delay, its share of a processor, and its open requests."""

    stage: int
    process: int
    at_ns: int
    worst_lag_ns: int
    cpu_share: float
    num_open: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LoadHeader:
    """What was asked, of whom, and on which machine. ``stages`` in the order of running."""

    run_id: str
    started_at: str
    settings: Mapping[str, Any]
    stages: tuple[Stage, ...]
    target: Mapping[str, Any]
    environment: Mapping[str, Any]
    format_version: int = FORMAT_VERSION


@dataclasses.dataclass(frozen=True, slots=True)
class LoadRun:
    """A records file as read back."""

    header: LoadHeader
    requests: tuple[LoadRecord, ...]
    windows: tuple[Window, ...]
    beats: tuple[Beat, ...]


Line = LoadHeader | LoadRecord | Window | Beat
_KINDS: Mapping[str, type[Line]] = {"run": LoadHeader, "request": LoadRecord, "window": Window, "beat": Beat}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def as_line(value: Line) -> str:
    """One line of the file, without its end."""
    return line_file.as_line(_NAMES[type(value)], value)


class LoadWriter(line_file.LineWriter):
    """Writes the lines of a load run."""

    def write(self, value: Line) -> None:
        """One more line."""
        self.write_line(as_line(value))


def read_load(folder: Path) -> LoadRun:
    """The records of a load run's folder. A last line that was cut off in the middle of writing is left out.

    Raises:
        TraceError: the file cannot be read, or a line is none of ours, with its number.
    """
    path = folder / RECORDS_FILE
    values = list(line_file.read_lines(path, parse_line, of="a load run", command="anaphora bench load"))
    if not values or not isinstance(values[0], LoadHeader):
        raise TraceError(f"{path} does not begin with its run line: it is not a records file of `anaphora bench load`")
    return LoadRun(
        values[0],
        tuple(value for value in values if isinstance(value, LoadRecord)),
        tuple(value for value in values if isinstance(value, Window)),
        tuple(value for value in values if isinstance(value, Beat)),
    )


def parse_line(line: str) -> Line:
    """A line as written by :func:`as_line`. Raises :class:`ValueError`, :class:`TypeError` or :class:`KeyError`."""
    value = json.loads(line)
    kind = _KINDS.get(value.pop("kind"))
    if kind is None:
        raise ValueError("unknown kind of line")
    if kind is LoadRecord:
        value["token_offsets_ns"] = tuple(value["token_offsets_ns"])
    elif kind is Window:
        for name in ("counters_before", "counters_after"):
            value[name] = None if value[name] is None else CounterReading(**value[name])
    elif kind is LoadHeader:
        if value["format_version"] != FORMAT_VERSION:
            raise ValueError(f"format version {value['format_version']}, this release reads {FORMAT_VERSION}")
        value["stages"] = tuple(Stage(**stage) for stage in value["stages"])
    return kind(**value)

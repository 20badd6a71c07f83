"""Our own records: what a run of the lab observed, in JSON lines, from which everything else is derived.

A file is one ``run`` line, then one ``request`` line a request in the order in which they were sent. Times are raw
readings of the client's monotonic clock in nanoseconds; unknown is ``null``, never 0. Lines are written as they happen,
so a run that was cut short keeps what it measured.
"""

import dataclasses
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from anaphora.errors import TraceError
from anaphora.traces.checked_fields import of_fields
from anaphora.traces.header_fields import expect_header
from anaphora.traces.line_file import LineWriter, as_line, read_lines, read_object

FORMAT_VERSION = 1
RECORDS_FILE = "records.jsonl"

Arm = Literal["on", "off"]
Phase = Literal["warmup", "first", "measured"]
"""``first``: the request that is expected to miss because it fills the cache (or, in the off arm, its counterpart);
shown apart and in no statistic. ``warmup``: other prompts, to open connections and warm the server."""


@dataclasses.dataclass(frozen=True, slots=True)
class CounterReading:
    """A server's cache counters at one instant: ``cached`` of ``queried``, both since the server's start.

    ``family`` names the metric that was read and ``unit`` is ``tokens`` or ``blocks``: readings of two families, or
    of two units, are never put into one ratio.
    """

    family: str
    unit: str
    queried: float
    cached: float
    by_source: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """``cached`` by where it came from, such as ``device`` and ``host``, where the server tells that; else empty."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One request as it was sent and answered. Counts and stamps only; ``anaphora.lab.timings`` derives the rest."""

    experiment: str
    arm: Arm
    phase: Phase
    group: int
    """What is varied: the prefix length aimed at, in tokens, or the number of a group that :attr:`label` names."""
    index: int
    """Number within experiment, arm and group, from 1. Equal numbers of the two arms make a pair."""
    label: str
    """What was asked, for people."""
    server: str
    """Which of the run's servers was asked."""
    sent_ns: int
    """The body's first byte is handed to the socket, on a connection that stands."""
    first_byte_ns: int | None
    first_token_ns: int | None
    """The bytes arrive that carry the first generated token: content, reasoning or tool call."""
    first_answer_ns: int | None
    """The same for the first visible content."""
    last_token_ns: int | None
    end_ns: int
    streamed: bool
    connection_reused: bool
    max_tokens: int
    num_prompt_tokens: int | None
    """As tokenised before sending; ``None`` when no tokenizer was at hand."""
    predicted_cached_tokens: int | None
    num_token_events: int
    finish_reason: str | None
    usage: Mapping[str, Any] | None
    """As the server sent it, and with it what the server wrote beside it about this request: llama.cpp's ``timings``,
    vLLM's ``metrics``."""
    worst_loop_lag_ns: int
    """The longest delay of the client's own event loop while the request ran."""
    counters_before: CounterReading | None
    counters_after: CounterReading | None
    answer: str
    error: str | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunHeader:
    """What was asked, of whom, and on which machine; written before the first measured request."""

    run_id: str
    started_at: str
    """UTC, ISO 8601: the one wall-clock reading, to join with a server's log."""
    num_planned_requests: int
    settings: Mapping[str, Any]
    target: Mapping[str, Any]
    environment: Mapping[str, Any]
    format_version: int = FORMAT_VERSION


@dataclasses.dataclass(frozen=True, slots=True)
class Resumption:
    """A run that was cut short went on here: ``after`` so many measured requests. Further ones before this line do not
    count: they failed as it was cut short, and were asked again."""

    at: str
    """UTC, ISO 8601."""
    after: int


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """A records file as read back."""

    header: RunHeader
    requests: tuple[RequestRecord, ...]
    resumed: tuple[Resumption, ...] = ()
    """When a run that was cut short was gone on with, in order."""


class RecordWriter(LineWriter):
    """Writes the lines of a run, the first one first."""

    def begin(self, header: RunHeader) -> None:
        """The first line."""
        self.write_line(as_line("run", header))

    def resume(self, resumption: Resumption) -> None:
        """Say that the run goes on here."""
        self.write_line(as_line("resumed", resumption))

    def append(self, record: RequestRecord) -> None:
        """One more request."""
        self.write_line(as_line("request", record))


def read_run(folder: Path) -> Run:
    """The records of a report folder, or of a records file itself.

    A last line that was cut off in the middle of writing is left out. Raises :class:`TraceError` for everything else
    that is not a records file, with the line's number.
    """
    path = folder / RECORDS_FILE if folder.is_dir() else folder
    if not path.exists() and (folder / "a" / RECORDS_FILE).exists():  # as `anaphora bench --compare` leaves it
        raise TraceError(f"{folder} holds two runs: give {folder / 'a'} or {folder / 'b'}")
    header: RunHeader | None = None
    requests: list[RequestRecord] = []
    resumed: list[Resumption] = []
    for value in read_lines(path, _parse, of="Anaphora", command="anaphora bench"):
        if isinstance(value, RunHeader):
            header = value
        elif isinstance(value, Resumption):
            resumed.append(value)
            requests = _first_measured(requests, value.after)
        else:
            requests.append(value)
    if header is None:
        raise TraceError(f"{path} has no run line: it is not a records file of `anaphora bench`")
    asked = header.settings["experiments"]
    strange = next((one.experiment for one in requests if one.phase != "warmup" and one.experiment not in asked), None)
    if strange is not None:
        raise TraceError(f"{path}, line 1: not a record of Anaphora (settings.experiments.{strange} is missing)")
    return Run(header, tuple(requests), tuple(resumed))


def _first_measured(requests: list[RequestRecord], number: int) -> list[RequestRecord]:
    """So many measured requests from the beginning, and the warm-ups."""
    counted = itertools.accumulate(record.phase != "warmup" for record in requests)
    return [
        record for record, place in zip(requests, counted, strict=True) if record.phase == "warmup" or place <= number
    ]


def _parse(line: str) -> RunHeader | RequestRecord | Resumption:
    value = read_object(line)
    kind = value.pop("kind")
    if kind == "run":
        if value["format_version"] != FORMAT_VERSION:
            raise ValueError(f"format version {value['format_version']}, this release reads {FORMAT_VERSION}")
        header = of_fields(RunHeader, value)
        expect_header(header.settings, header.target, header.environment)
        return header
    if kind == "resumed":
        return of_fields(Resumption, value)
    if kind != "request":
        raise ValueError(f"unknown kind {kind!r}")
    for name in ("counters_before", "counters_after"):
        value[name] = None if value[name] is None else of_fields(CounterReading, value[name])
    return of_fields(RequestRecord, value)

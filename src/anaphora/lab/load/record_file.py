"""The file of a load run's records, in JSON lines.

``run`` is the first line. ``request`` lines come in the order in which requests ended; ``window`` closes a stage and
says which part of it counts; ``beat`` lines tell once a second how busy a sending process was; ``prediction`` comes
after its stage's window. ``resumed`` stands where a run that was cut short went on.
"""

import dataclasses
from pathlib import Path

from anaphora.errors import TraceError
from anaphora.lab.load.header_fields import LoadEnvironment, StoredSettings
from anaphora.lab.load.records import (
    FORMAT_VERSION,
    Beat,
    LoadHeader,
    LoadRecord,
    LoadResumption,
    LoadRun,
    Stage,
    StagePrediction,
    Window,
)
from anaphora.traces import line_file
from anaphora.traces.checked_fields import expect_entries, of_fields
from anaphora.traces.header_fields import Target
from anaphora.traces.records import CounterReading

RECORDS_FILE = "load.jsonl"

OfStage = LoadRecord | Window | Beat | StagePrediction
Line = LoadHeader | LoadResumption | OfStage
_KINDS: dict[str, type[Line]] = {
    "run": LoadHeader,
    "request": LoadRecord,
    "window": Window,
    "beat": Beat,
    "prediction": StagePrediction,
    "resumed": LoadResumption,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_PREDICTED = ("numbers", "prompt_tokens", "cached_tokens")


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
    header = values[0]
    kept: list[OfStage] = []
    resumptions: list[LoadResumption] = []
    for value in values[1:]:
        if isinstance(value, LoadResumption):
            resumptions.append(value)
            again = {stage.number: stage for stage in value.stages}
            kept = [one for one in kept if one.stage not in again]
            header = dataclasses.replace(header, stages=tuple(again.get(one.number, one) for one in header.stages))
        elif not isinstance(value, LoadHeader):
            kept.append(value)
    return LoadRun(
        header,
        tuple(value for value in kept if isinstance(value, LoadRecord)),
        tuple(value for value in kept if isinstance(value, Window)),
        tuple(value for value in kept if isinstance(value, Beat)),
        tuple(value for value in kept if isinstance(value, StagePrediction)),
        tuple(resumptions),
    )


def parse_line(line: str) -> Line:
    """A line as written by :func:`as_line`. Raises :class:`ValueError`, :class:`TypeError` or :class:`KeyError`."""
    value = line_file.read_object(line)
    kind = _KINDS.get(value.pop("kind"))
    if kind is None:
        raise ValueError("unknown kind of line")
    if kind is LoadRecord:
        value["token_offsets_ns"] = tuple(value["token_offsets_ns"])
    elif kind is Window:
        for name in ("counters_before", "counters_after"):
            value[name] = None if value[name] is None else of_fields(CounterReading, value[name])
    elif kind is StagePrediction:
        value |= {name: tuple(value[name]) for name in _PREDICTED}
    elif kind in (LoadHeader, LoadResumption):
        value["stages"] = tuple(of_fields(Stage, stage) for stage in value["stages"])
    if kind is LoadHeader and value["format_version"] != FORMAT_VERSION:
        raise ValueError(f"format version {value['format_version']}, this release reads {FORMAT_VERSION}")
    read = of_fields(kind, value)
    if isinstance(read, LoadHeader):
        expect_entries(StoredSettings, read.settings, "settings")
        expect_entries(Target, read.target, "target")
        expect_entries(LoadEnvironment, read.environment, "environment")
    return read

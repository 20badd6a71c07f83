"""Records on disk: what is written comes back, a cut last line is forgiven, anything else is not."""

import json
from pathlib import Path
from typing import Any

import pytest

from anaphora.errors import TraceError
from anaphora.traces.checked_fields import of_fields
from anaphora.traces.records import RECORDS_FILE, CounterReading, RecordWriter, RunHeader, read_run
from tests.lab.records import TABLES, record

HEADER = RunHeader(run_id="r", started_at="2026-11-29T12:00:00+00:00", num_planned_requests=2, **TABLES)
RECORDS = (
    record(counters_before=CounterReading("f", "tokens", 1.0, 0.0), answer="zwei\nZeilen \u2028"),
    record(usage=None, ttft_ms=None, error="gone"),
)


def write(folder: Path) -> Path:
    path = folder / RECORDS_FILE
    with RecordWriter(path) as writer:
        writer.begin(HEADER)
        for entry in RECORDS:
            writer.append(entry)
    return path


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    path = write(tmp_path)
    for place in (tmp_path, path):
        run = read_run(place)
        assert run.header == HEADER
        assert run.requests == RECORDS


def test_each_record_is_on_disk_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / RECORDS_FILE
    with RecordWriter(path) as writer:
        writer.begin(HEADER)
        assert read_run(path).requests == ()
        writer.append(RECORDS[0])
        assert read_run(path).requests == RECORDS[:1]


def test_a_line_that_was_cut_off_at_the_end_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_bytes(path.read_bytes()[:-20])
    assert read_run(path).requests == RECORDS[:1]


def test_a_line_may_be_cut_off_within_a_character_or_behind_a_bracket_and_is_taken_away_by_who_goes_on(
    tmp_path: Path,
) -> None:
    path = write(tmp_path)
    first, second = path.read_bytes().splitlines(keepends=True)[:2]
    for rest in ("…".encode()[:2], b'{"kind": "request", "usage": {}'):
        path.write_bytes(first + second + rest)
        assert read_run(path).requests == RECORDS[:1]
        with RecordWriter(path, resumes=True):
            assert path.read_bytes() == first + second


def test_a_whole_last_line_without_its_end_counts_and_is_kept_by_who_goes_on(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    assert read_run(path).requests == RECORDS
    with RecordWriter(path, resumes=True) as writer:
        writer.append(RECORDS[0])
    assert read_run(path).requests == (*RECORDS, RECORDS[0])


def test_a_run_is_never_overwritten(tmp_path: Path) -> None:
    path = write(tmp_path)
    with pytest.raises(TraceError, match="exists already: give another folder with --out"):
        RecordWriter(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: [lines[0], "{broken", lines[1]], "line 2: not a record"),
        (lambda lines: [lines[0], '{"kind": "request"}', lines[1]], "line 2: not a record"),
        (lambda lines: [lines[0], '{"kind": "other"}'], "unknown kind 'other'"),
        (lambda lines: [lines[0], "null"], "line 2: not a record of Anaphora .a JSON object is wanted, not null"),
        (lambda lines: [lines[0].replace('"format_version": 1', '"format_version": 9')], "format version 9"),
        (lambda lines: lines[1:3], "has no run line"),
        (lambda lines: [], "has no run line"),
    ],
)
def test_what_is_no_records_file_is_told(tmp_path: Path, change: object, message: str) -> None:
    path = write(tmp_path)
    assert callable(change)
    path.write_text("\n".join(change(path.read_text("utf-8").split("\n"))) + "\n", "utf-8")
    with pytest.raises(TraceError, match=message):
        read_run(path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="give a report folder of `anaphora bench`"):
        read_run(tmp_path)


def test_numbers_that_json_cannot_hold_are_refused(tmp_path: Path) -> None:
    with RecordWriter(tmp_path / RECORDS_FILE) as writer, pytest.raises(ValueError, match="JSON compliant"):
        writer.append(record(usage={"x": float("nan")}))


@pytest.mark.parametrize("number", [0, 1])
def test_a_field_of_a_wrong_type_or_missing_is_told_by_its_name(tmp_path: Path, number: int) -> None:
    """Every field of a run line and of a request line, one after another."""
    path = write(tmp_path)
    lines = path.read_text("utf-8").rstrip("\n").split("\n")
    whole = json.loads(lines[number])
    assert len(whole) > 5
    for name in whole.keys() - {"kind"}:
        wrong_ones = [["x"], *(["five", 1.5, True, float("inf")] if name.endswith("_ns") else [])]
        for damaged in ({k: v for k, v in whole.items() if k != name}, *({**whole, name: one} for one in wrong_ones)):
            changed = [json.dumps(damaged) if place == number else line for place, line in enumerate(lines)]
            path.write_text("\n".join(changed) + "\n", "utf-8")
            with pytest.raises(TraceError, match=rf"line {number + 1}: not a record of Anaphora \("):
                read_run(path)


@pytest.mark.parametrize(
    ("reading", "fault"),
    [
        ({"family": "f", "unit": "tokens", "queried": "x", "cached": 0}, "queried cannot be 'x'"),
        ({"family": "f", "unit": "tokens", "queried": 1}, "cached is missing"),
        ({"family": "f", "unit": "tokens", "queried": 1, "cached": 0, "by_source": {"a": "b"}}, "by_source cannot be"),
        ({"family": "f", "unit": "tokens", "queried": 1, "cached": 0, "more": 1}, "unknown field 'more'"),
    ],
)
def test_a_damaged_counter_reading_is_told(reading: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        of_fields(CounterReading, reading)

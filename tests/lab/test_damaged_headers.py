"""A run line that is damaged inside its tables is told in one line with file, line and field, by whatever reads it;
what no report reckons with may be anything."""

import copy
import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from anaphora.cli.main import run
from anaphora.errors import TraceError
from anaphora.lab.arms import Mechanism
from anaphora.lab.comparison.comparable import remarks
from anaphora.lab.comparison.compare import compare
from anaphora.lab.load.header_fields import StoredSettings
from anaphora.lab.load.record_file import RECORDS_FILE as LOAD_FILE
from anaphora.lab.load.record_file import as_line, read_load
from anaphora.lab.load.report.page import load_page
from anaphora.lab.load.results import results_of as load_results_of
from anaphora.lab.load.slo import LIMIT_NAMES
from anaphora.lab.money import Prices
from anaphora.lab.report.languages import LANGUAGES
from anaphora.lab.report.page import page
from anaphora.lab.results import results_of
from anaphora.traces.header_fields import SharedSettings, StoredPrices
from anaphora.traces.records import RECORDS_FILE, RecordWriter, RunHeader, read_run
from tests.lab.load.records import header, load_record, stage, window
from tests.lab.records import TABLES, record

STAMPS = {"median": 0.1, "p99": 0.2, "num_samples": 20}
CALIBRATED = {"ttft_error_ms": {"1": STAMPS}, "event_error_ms": {"1": {"read_late_percent": 0.0}}}
WRONG: tuple[Any, ...] = (None, "x", -1.5, True, [], ["x"], {}, {"x": 1}, [{}])


def whole_run() -> dict[str, dict[str, Any]]:
    tables = copy.deepcopy(TABLES)
    tables["settings"] |= {"lang": "en", "server_options": ["--port", "1"], "arms": "auto"}
    tables["target"] |= {"prices": {"input": 1.0, "output": 2.0}, "takes_system": True, "base_url": "u"}
    tables["target"]["cache_settings"] = {"block_size": "16", "num_gpu_blocks": "100", "num_slots": "2"}
    tables["environment"] |= {"client_error": CALIBRATED, "packages": {"numpy": "2"}, "memory_gib": 1.5}
    return tables


def write_run(folder: Path, tables: dict[str, Any]) -> None:
    (folder / RECORDS_FILE).unlink(missing_ok=True)
    with RecordWriter(folder / RECORDS_FILE) as writer:
        writer.begin(RunHeader(run_id="r", started_at="2026-01-01T00:00:00", num_planned_requests=2, **tables))
        writer.append(record())
        writer.append(record(arm="off"))


def write_load(folder: Path, tables: dict[str, Any]) -> None:
    first = {**json.loads(as_line(header(stage()))), **tables}
    lines = [json.dumps(first), as_line(load_record()), as_line(window())]
    (folder / LOAD_FILE).write_text("\n".join(lines) + "\n", "utf-8")


def whole_load() -> dict[str, dict[str, Any]]:
    made = header(stage(), slo={"ttft_ms": 100.0})
    environment = {**made.environment, "client_error": {**CALIBRATED, "streams_per_process": 1}}
    target = {**made.target, "prices": {"input": 1.0, "output": 2.0}}
    return {"settings": dict(made.settings), "target": target, "environment": environment}


def damages(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every place of the tables with each value that it may hardly have; ``...``: it is gone."""
    if path:
        yield from ((path, wrong) for wrong in (..., *WRONG))
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield from damages(inner, (*path, name))


def damaged(tables: dict[str, Any], path: tuple[Any, ...], wrong: Any) -> dict[str, Any]:
    changed = copy.deepcopy(tables)
    inner: Any = changed
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = wrong
    if wrong is ...:
        del inner[path[-1]]
    return changed


def told(read: Callable[[], object], path: tuple[Any, ...]) -> bool:
    """Reads and reckons; whether it was refused by name. Anything else but a result fails the test."""
    said = None
    try:
        read()
    except TraceError as error:
        said = str(error)
    if said is not None:
        assert "\n" not in said
        assert f"line 1: not a record of {'a load run' if LOAD_FILE in said else 'Anaphora'} (" in said
        assert path[0] in said
    return said is not None


def reported(folder: Path) -> None:
    """What `anaphora report` and `anaphora compare` reckon and say."""
    damaged_run = read_run(folder)
    results = results_of(damaged_run)
    page(results, {})
    remarks(damaged_run, dataclasses.replace(damaged_run, header=dataclasses.replace(damaged_run.header, run_id="b")))
    compare(damaged_run, damaged_run)


def test_damage_anywhere_in_a_run_line_is_told_or_does_no_harm(tmp_path: Path) -> None:
    num_told = 0
    for path, wrong in damages(whole_run()):
        if len(path) > 1 or wrong is not ...:
            write_run(tmp_path, damaged(whole_run(), path, wrong))
            num_told += told(lambda: reported(tmp_path), path)
    assert num_told > 100


def test_damage_anywhere_in_a_load_runs_line_is_told_or_does_no_harm(tmp_path: Path) -> None:
    num_told = 0
    for path, wrong in damages(whole_load()):
        write_load(tmp_path, damaged(whole_load(), path, wrong))
        num_told += told(lambda: load_page(load_results_of(read_load(tmp_path)), {}), path)
    assert num_told > 100


def test_whole_lines_are_read(tmp_path: Path) -> None:
    write_run(tmp_path, whole_run())
    reported(tmp_path)
    write_load(tmp_path, whole_load())
    read_load(tmp_path)
    older = whole_run()
    older["settings"] |= {"experiments": ["switch"], "prefix_tokens": 100}
    write_run(tmp_path, older)
    reported(tmp_path)
    del older["settings"]["prefix_tokens"]
    write_run(tmp_path, older)
    with pytest.raises(TraceError, match=r"settings\.prefix_tokens is missing"):
        read_run(tmp_path)


def test_the_settings_of_an_experiment_that_was_asked_are_there(tmp_path: Path) -> None:
    tables = whole_run()
    tables["settings"]["experiments"] = {}
    write_run(tmp_path, tables)
    with pytest.raises(TraceError, match=r"line 1: .*settings\.experiments\.switch is missing"):
        read_run(tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        ["report", "{}"],
        ["compare", "{}", "{}"],
        ["bench", "switch", "--target", "http://127.0.0.1:9", "--resume", "{}"],
        ["simulate", "{}/trace.jsonl", "--latency", "{}"],
    ],
    ids=lambda command: command[0],
)
def test_every_command_says_it_in_one_line(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    trace = {"timestamp": 0, "input_length": 32, "output_length": 2, "hash_ids": [1]}
    (tmp_path / "trace.jsonl").write_text(json.dumps(trace) + "\n", "utf-8")
    write_run(tmp_path, damaged(whole_run(), ("environment", "load_average"), []))
    assert run([word.replace("{}", str(tmp_path)) for word in command]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"{tmp_path / RECORDS_FILE}, line 1: " in line
    assert "(environment.load_average cannot be [])" in line


def test_what_may_stand_there_is_what_the_lab_knows() -> None:
    hints = get_type_hints(SharedSettings)
    assert set(get_args(hints["mechanism"])) == {one.value for one in Mechanism}
    assert set(get_args(hints["lang"])) == set(LANGUAGES)
    assert set(get_args(get_args(get_type_hints(StoredSettings)["slo"])[0])) == set(LIMIT_NAMES)
    assert [field.name for field in dataclasses.fields(StoredPrices)] == [
        field.name for field in dataclasses.fields(Prices)
    ]

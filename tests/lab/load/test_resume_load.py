"""A sweep that was cut short goes on with the stages that it lacks, and only as it was."""

import dataclasses
import json
from pathlib import Path

import pytest

from anaphora.cli.main import run as anaphora
from anaphora.errors import TraceError
from anaphora.lab.load.header import settings_as_stored
from anaphora.lab.load.record_file import RECORDS_FILE, Line, LoadWriter, read_load
from anaphora.lab.load.records import INTERRUPTED, Beat, LoadResumption, StagePrediction
from anaphora.lab.load.resume import unfinished_stages
from anaphora.lab.load.settings import LoadSettings
from anaphora.lab.options import BenchOptions
from tests.lab.fakes import FakeServing
from tests.lab.load.records import header, load_record, stage, window
from tests.lab.load.test_session import SHORT, calibrated, results_in
from tests.lab.test_session import served

__all__ = ["calibrated"]  # a fixture that every test here uses

COMMAND = ["bench", "load", "--concurrency", "1", "--prefix-tokens", "48", *SHORT]


def test_a_run_goes_on_at_the_next_stage_with_words_that_no_server_has_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "r"
    serving = FakeServing(pause_s=0.01)
    with served(serving) as url:
        assert anaphora([*COMMAND, "--target", url, "--out", str(out)]) == 0
        whole = read_load(out)
        _cut_within_the_second_stage(out / RECORDS_FILE)
        assert unfinished_stages(read_load(out)) == {1}
        assert anaphora([*COMMAND, "--target", url, "--resume", str(out)]) == 0
        told = capsys.readouterr().err
        assert "going on after 1 of 2 stages" in told
        assert "1 stage, at most about" in told
        assert "1/1  concurrency 1, caching off: " in told  # what is left is counted, not what was
        assert anaphora([*COMMAND, "--target", url, "--resume", str(out)]) == 2
        assert "the run is complete (2 stages)" in capsys.readouterr().err
    again = read_load(out)
    assert again.header.run_id == whole.header.run_id
    assert [r for r in again.requests if r.stage == 0] == [r for r in whole.requests if r.stage == 0]
    later = [r for r in again.requests if r.stage == 1]
    assert later
    assert min(r.sent_ns for r in later) > max(r.sent_ns for r in whole.requests)
    off_salts = [salt for salt in serving.salts if salt is not None and "-off-" in salt]
    assert len(set(off_salts)) == len(off_salts) > 0
    results = results_in(out)
    assert len(results["run"]["resumed"]) == 1
    off = next(row for row in results["witnesses"] if row["arm"] == "off")
    assert off["usage"][0] == off["predicted"][0] == 0


def _cut_within_the_second_stage(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines(keepends=True)
    end = next(n for n, line in enumerate(lines) if line.startswith('{"kind": "prediction"'))
    path.write_text("".join(lines[: end + 4]) + '{"kind": "req', "utf-8")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (["--concurrency", "2"], "the setting concurrency was [1] and is [2]: resume with the run's command"),
        (["--prefix-tokens", "49"], "the setting prefix_tokens was 48 and is 49"),
        (["--out", "x"], "--resume says which folder: leave out --out"),
        (["--dry-run"], "--dry-run shows a whole run: leave out --resume"),
    ],
)
def test_another_runs_settings_are_refused_before_anybody_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: list[str], said: str
) -> None:
    nobody = "http://127.0.0.1:9"
    options, settings = _asked(nobody)
    begun = header(stage(), stage(number=1))
    with LoadWriter(tmp_path / RECORDS_FILE) as writer:
        writer.write(dataclasses.replace(begun, settings={**begun.settings, **settings_as_stored(options, settings)}))
    before = (tmp_path / RECORDS_FILE).read_bytes()
    assert anaphora([*COMMAND, "--target", nobody, "--resume", str(tmp_path), *changed]) == 2
    assert said in capsys.readouterr().err
    assert (tmp_path / RECORDS_FILE).read_bytes() == before


def _asked(url: str) -> tuple[BenchOptions, LoadSettings]:
    """What :data:`COMMAND` asks."""
    settings = LoadSettings(
        concurrency=(1,), prefix_tokens=48, duration_s=0.5, warmup_s=0.0, unique_tokens=24, output_tokens=3
    )
    return BenchOptions(experiments=(), target=url), settings


def test_what_was_recorded_of_a_stage_before_it_was_run_again_counts_no_more(tmp_path: Path) -> None:
    first, second = stage(), stage(number=1, arm="off")
    again = stage(number=1, arm="off", num_processes=3)
    with LoadWriter(tmp_path / RECORDS_FILE) as writer:
        writer.write(header(first, second))
        writer.write(load_record())
        writer.write(window())
        writer.write(load_record(stage=1, number=7))
        writer.write(window(stage=1, stopped=INTERRUPTED))
        writer.write(LoadResumption(started_at="later", stages=(again,)))
        writer.write(load_record(stage=1, number=8))
        writer.write(window(stage=1))
    run = read_load(tmp_path)
    assert [(r.stage, r.number) for r in run.requests] == [(0, 0), (1, 8)]
    assert [one.stopped for one in run.windows] == [None, None]
    assert run.header.stages == (first, again)
    assert unfinished_stages(run) == set()


def test_a_stage_that_the_server_ended_is_a_finding_and_is_not_run_again(tmp_path: Path) -> None:
    with LoadWriter(tmp_path / RECORDS_FILE) as writer:
        writer.write(header(stage(), stage(number=1), stage(number=2)))
        writer.write(window(stopped="8 requests in a row failed"))
        writer.write(window(stage=1, stopped=INTERRUPTED))
    assert unfinished_stages(read_load(tmp_path)) == {1, 2}


@pytest.mark.parametrize("number", range(5))
def test_a_damaged_line_of_a_load_run_is_told(tmp_path: Path, number: int) -> None:
    """Every field of every kind of line, with a value that it cannot have."""
    values: list[Line] = [
        header(stage()),
        load_record(),
        window(),
        Beat(stage=0, process=0, at_ns=1, worst_lag_ns=1, cpu_share=0.5, num_open=1),
        StagePrediction(stage=0, reason=None, block_size=16, numbers=(1,)),
    ]
    with LoadWriter(tmp_path / RECORDS_FILE) as writer:
        for value in values:
            writer.write(value)
    path = tmp_path / RECORDS_FILE
    lines = path.read_text("utf-8").splitlines()
    whole = json.loads(lines[number])
    for name in whole.keys() - {"kind"}:
        for wrong in (["x"], "five" if name.endswith("_ns") else [["x"]]):
            changed = [json.dumps({**whole, name: wrong}) if at == number else line for at, line in enumerate(lines)]
            path.write_text("\n".join(changed) + "\n", "utf-8")
            with pytest.raises(TraceError, match=f"line {number + 1}: not a record of a load run"):
                read_load(tmp_path)

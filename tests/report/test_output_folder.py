"""Folders for results: no command writes over what another one left."""

import json
from pathlib import Path

import pytest

from anaphora.cli.main import run
from anaphora.errors import ConfigError
from anaphora.report.output_folder import make_folder

SIGNS = {
    "records.jsonl": "a run",
    "load.jsonl": "a run",
    "probe.json": "a probe",
    "comparison.html": "a comparison",
    "runs.csv": "a simulation",
}


@pytest.mark.parametrize("sign", SIGNS)
def test_a_folder_with_results_is_refused_but_by_who_replaces_them(tmp_path: Path, sign: str) -> None:
    make_folder(tmp_path / "new" / "folder")
    make_folder(tmp_path / "new" / "folder")  # nothing is in it
    (tmp_path / sign).touch()
    with pytest.raises(ConfigError, match=f"holds {SIGNS[sign]} already: give another folder with --out"):
        make_folder(tmp_path)
    make_folder(tmp_path, replaces=sign)


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize(
    "command",
    [
        ["simulate", "TRACE", "--capacity", "10"],
        ["bench", "switch", "--target", "http://127.0.0.1:1"],
        ["bench", "load", "--target", "http://127.0.0.1:1"],
        ["bench", "probe", "--target", "http://127.0.0.1:1"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_no_command_writes_over_what_another_left(
    tmp_path: Path, sign: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    trace, out = tmp_path / "trace.jsonl", tmp_path / "out"
    trace.write_text(json.dumps({"timestamp": 0, "input_length": 1024, "hash_ids": [1, 2]}) + "\n")
    out.mkdir()
    for name in (sign, "report.html", "results.json"):
        (out / name).write_text("kept")
    words = [str(trace) if word == "TRACE" else word for word in command]
    is_own = sign == "runs.csv" and command[0] == "simulate"
    assert run([*words, "--out", str(out)]) == (0 if is_own else 2)
    kept = [(out / name).read_text() == "kept" for name in (sign, "report.html", "results.json")]
    assert kept == [not is_own] * 3
    if not is_own:
        assert "already: give another folder with --out" in capsys.readouterr().err

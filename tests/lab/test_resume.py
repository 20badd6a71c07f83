"""A run that was cut short goes on where it stopped, and only as it was."""

import copy
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from anaphora.cli.main import run as anaphora
from anaphora.traces.records import RECORDS_FILE, read_run
from tests.lab.fakes import FakeServing
from tests.lab.test_session import FEW, served

NUM_PLANNED = 16


@dataclass(frozen=True)
class Finished:
    """A whole run, and the server that it was sent to, which is still there as the run left it."""

    url: str
    folder: Path
    serving: FakeServing
    state: dict[str, Any]

    def copy_to(self, folder: Path) -> Path:
        """The run's folder for one test. The server forgets what other tests have sent."""
        vars(self.serving).update(copy.deepcopy(self.state))
        return Path(shutil.copytree(self.folder, folder))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    folder, serving = tmp_path_factory.mktemp("finished") / "r", FakeServing()
    with served(serving) as url:
        assert anaphora(["bench", "all", "--target", url, *FEW, "--out", str(folder)]) == 0
        yield Finished(url, folder, serving, copy.deepcopy(vars(serving)))


def cut(folder: Path, num_lines: int, rest: str = "") -> None:
    path = folder / RECORDS_FILE
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:num_lines]) + rest, "utf-8")


def places(folder: Path) -> list[tuple[Any, ...]]:
    return [
        (r.experiment, r.arm, r.group, r.index, r.num_prompt_tokens)
        for r in read_run(folder).requests
        if r.phase != "warmup"
    ]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(("num_done", "rest"), [(0, ""), (1, ""), (5, '{"kind": "requ'), (12, ""), (15, "")])
def test_what_was_not_sent_is_sent(
    tmp_path: Path, finished: Finished, num_done: int, rest: str, restarted: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    out = finished.copy_to(tmp_path / "r")
    whole = places(out)
    cut(out, 1 + 2 + num_done, rest)
    if restarted:
        with served(FakeServing()) as another:
            assert anaphora(["bench", "all", "--target", another, *FEW, "--resume", str(out)]) == 0
    else:
        assert anaphora(["bench", "all", "--target", finished.url, *FEW, "--resume", str(out)]) == 0
    assert f"going on after {num_done} of {NUM_PLANNED} requests" in capsys.readouterr().err
    assert places(out) == whole
    run = read_run(out)
    assert [one.after for one in run.resumed] == [num_done]
    results = json.loads((out / "results.json").read_text("utf-8"))
    checks = {check["name"]: check for check in results["trust"]}
    assert checks["complete"]["status"] == "ok"
    assert f"resumed after {num_done}" in checks["complete"]["seen"]
    assert checks["off requests missed"]["status"] == "ok"
    assert checks["on requests hit"]["status"] == "ok"
    for experiment in results["experiments"].values():
        assert experiment["hit_rate_percent_after_first"]["usage"] > 40


def test_requests_that_failed_as_the_server_went_are_asked_again(
    tmp_path: Path, finished: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    """A single failure is a finding and stays; three in a row have cut the run short."""
    out = finished.copy_to(tmp_path / "r")
    whole = places(out)
    cut(out, 3)
    serving = FakeServing()
    with served(serving) as url:
        command = ["bench", "all", "--target", url, *FEW, "--resume", str(out)]
        serving.fails = lambda n: "gone" if n > 14 or n == 9 else None
        assert anaphora(command) == 2
        capsys.readouterr()
        run = read_run(out)
        failed = [record.error is not None for record in run.requests if record.phase != "warmup"]
        num_good = len(failed) - 3
        assert failed[-4:] == [False, True, True, True]
        num_lost = sum(failed[:num_good])
        serving.fails = lambda n: None
        assert anaphora(command) == 0
    assert f"going on after {num_good} of {NUM_PLANNED} requests" in capsys.readouterr().err
    assert places(out) == whole
    again = read_run(out)
    assert sum(record.error is not None for record in again.requests if record.phase != "warmup") == num_lost
    assert [one.after for one in again.resumed] == [0, num_good]
    assert anaphora(command) == 2
    assert "the run is complete" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--repeats", "3"], "the setting experiments.gradient.repeats was 2 and is 3: resume with the run's command"),
        (["--seed", "1"], "the setting seed was 0 and is 1: resume with the run's command"),
        (["--arms", "nonce"], "the setting arms was"),
        (["--out", "elsewhere"], "leave out --out"),
        (["--dry-run"], "leave out --resume"),
    ],
)
def test_another_run_is_not_gone_on_with(
    tmp_path: Path, finished: Finished, changes: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = finished.copy_to(tmp_path / "r")
    cut(out, 6)
    before = (out / RECORDS_FILE).read_bytes()
    assert anaphora(["bench", "all", "--target", finished.url, *FEW, "--resume", str(out), *changes]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "goes on" not in said.splitlines()[-2:][0]
    assert (out / RECORDS_FILE).read_bytes() == before


def test_a_complete_run_and_no_run_are_refused(
    tmp_path: Path, finished: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    out = finished.copy_to(tmp_path / "r")
    command = ["bench", "all", "--target", finished.url, *FEW]
    assert anaphora([*command, "--resume", str(out)]) == 2
    said = capsys.readouterr().err
    assert "the run is complete (16 requests)" in said.splitlines()[-1]
    assert "goes on" not in said
    assert anaphora(["bench", "switch", "--target", finished.url, "--resume", str(out)]) == 2
    (tmp_path / "empty").mkdir()
    assert anaphora([*command, "--resume", str(tmp_path / "empty")]) == 2
    assert anaphora([*command, "--resume", str(tmp_path / "none")]) == 2
    assert "Traceback" not in capsys.readouterr().err

"""`anaphora bench probe` as a person runs it, against a scripted server behind a real socket."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from anaphora.cli.main import run
from tests.lab.fakes import FakeServing
from tests.lab.test_session import heeds_sigint, served

__all__ = ["heeds_sigint"]  # a fixture

FEW = ["bench", "probe", "--prompt-words", "96", "--max-tokens", "30000", "--max-wait", "0"]


@pytest.mark.draws
def test_a_folder_with_findings_and_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "r"
    with served(FakeServing()) as url:
        assert run([*FEW, "--target", f"{url}/v1", "--out", str(out)]) == 0
        printed = capsys.readouterr()
        assert "block size  16 tokens  (counted)" in printed.out
        assert "the server itself says 16 tokens" in " ".join(printed.out.split())
        assert "· block size: 16 tokens" in printed.err
        assert run([*FEW, "--target", url, "--out", str(out)]) == 2
        assert "holds a probe already" in capsys.readouterr().err
    kept = json.loads((out / "probe.json").read_text("utf-8"))
    assert kept["is_complete"] is True
    assert kept["findings"]["block_size"]["value"] == 16
    assert kept["findings"]["keys"]["value"] is None
    assert kept["num_tokens_sent"] == sum(asked["num_prompt_tokens"] for asked in kept["requests"]) <= 30_000
    page = (out / "probe.html").read_text("utf-8")
    assert "In which steps is a shared beginning reused?" in page
    assert "<svg" in page
    assert {path.name for path in out.iterdir()} == {
        "probe.json",
        "probe.html",
        "figure-steps.png",
        "figure-steps.svg",
    }


@pytest.mark.usefixtures("heeds_sigint")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_probe_says_where_its_findings_are(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "r"
    with served(FakeServing(pause_s=0.05)) as url:
        command = [sys.executable, "-m", "anaphora", *FEW, "--target", url, "--out", str(out)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            next(line for line in lines if "reuse: yes" in line)
            process.send_signal(number)
            rest = "".join(lines)
            process.wait()
    assert process.returncode == 130, rest
    assert "Traceback" not in rest
    assert f"cut short: what was found until then is in {out / 'probe.html'}" in rest
    kept = json.loads((out / "probe.json").read_text("utf-8"))
    assert kept["is_complete"] is False
    assert kept["findings"]["reuse"]["answer"] == "yes"


def test_json_goes_to_stdout_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(FakeServing(block_size=32, shows_cached=False)) as url:
        assert run([*FEW, "--target", url, "--out", str(tmp_path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["findings"]["block_size"]["value"] == 32  # by the server's counters
    assert "requests" not in printed


def test_a_server_without_a_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(FakeServing(caching=False)) as url:
        assert run([*FEW, "--target", url, "--out", str(tmp_path)]) == 0
    assert "reuse       no  (counted)" in capsys.readouterr().out
    assert "<svg" not in (tmp_path / "probe.html").read_text("utf-8").partition("Requests")[0]


def test_a_dry_run_asks_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*FEW, "--target", "http://127.0.0.1:9", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "block size" in printed
    assert "30,000" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--max-tokens", "10"], "too little to begin with"),
        (["--prompt-words", "3"], "--prompt-words must be at least 64"),
        (["--max-wait", "-1"], "--max-wait must be 0 or more"),
        (["--max-wait", "nan"], "--max-wait must be 0 or more"),
        (["--other-api-key-env", "X"], "needs a server that stands"),
        (["--target", "http://127.0.0.1:9"], "nothing answers at"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "r"
    assert run(["bench", "probe", *words, "--out", str(out)]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert message in error
    assert not out.exists()


def test_a_second_key_must_be_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OTHER_KEY", raising=False)
    with served(FakeServing()) as url:
        options = ["--target", url, "--out", str(tmp_path / "r"), "--other-api-key-env", "OTHER_KEY"]
        assert run([*FEW, *options]) == 2
        assert "OTHER_KEY is not set" in capsys.readouterr().err
        monkeypatch.setenv("OTHER_KEY", "sk-secret-of-the-test")
        assert run([*FEW, *options]) == 0
    assert "sk-secret" not in (tmp_path / "r" / "probe.json").read_text("utf-8")
    assert json.loads((tmp_path / "r" / "probe.json").read_text("utf-8"))["findings"]["keys"]["value"] == "yes"

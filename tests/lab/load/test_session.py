"""`anaphora bench load` as a person runs it, against a scripted server behind a real socket."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anaphora.cli.main import run
from anaphora.lab.load.capacity import Capacity
from anaphora.lab.load.record_file import RECORDS_FILE, read_load
from anaphora.lab.usage import read_usage
from tests.lab.fakes import FakeServing
from tests.lab.test_session import served

SHORT = ["--duration", "0.5", "--warmup", "0", "--unique-tokens", "24", "--output-tokens", "3"]


@pytest.fixture(autouse=True)
def calibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is known to carry enough: what it really carries is the calibration's own test."""

    async def enough(num_streams: int) -> Capacity:
        return Capacity(256, ())

    monkeypatch.setattr("anaphora.lab.load.run.measure_capacity", enough)
    # a busy machine may miss what is asked of it; that it is then refused is tested with records
    monkeypatch.setattr("anaphora.lab.load.verdict._REACHED", 0.0)
    monkeypatch.setattr("anaphora.lab.load.verdict._STOOD_STILL_S", 3600.0)


def results_in(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "results.json").read_text("utf-8")))


@pytest.mark.draws
def test_a_closed_loop_then_its_report_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "r"
    command = ["bench", "load", "--concurrency", "1,3", "--prefix-tokens", "64", "--slo", "ttft_ms=60000", *SHORT]
    with served(FakeServing(pause_s=0.01)) as url:
        assert run([*command, "--target", url, "--out", str(out)]) == 0
        printed = capsys.readouterr()
        assert "What prefix caching changes" in printed.out
        assert "4/4  concurrency 3, caching" in printed.err
        assert run([*command, "--target", url, "--out", str(out)]) == 2
        assert "holds a run already" in capsys.readouterr().err
    results = results_in(out)
    rows = results["load"]["rows"]
    assert [row["level"] for row in rows] == [1.0, 3.0]
    for row in rows:
        assert row["off"]["hit_rate_percent"]["usage"] == 0
        assert row["on"]["hit_rate_percent"]["usage"] > 30
        assert row["on"]["goodput"]["share"] == 1
        assert row["on"]["mean_output_tokens"] == 3
    assert {check["name"]: check["status"] for check in results["trust"]}["off requests missed"] == "ok"
    command_again = results["run"]["settings"]["command"]
    assert command_again.startswith("anaphora bench load --concurrency 1,3 --duration 0.5")
    files = {path.name for path in out.iterdir()}
    assert files >= {"figure-latency.png", "figure-goodput.svg", "figure-distribution.png", "table.csv", "report.html"}
    before = (out / "results.json").read_bytes()
    (out / "report.html").unlink()
    assert run(["report", str(out)]) == 0
    assert (out / "results.json").read_bytes() == before
    assert "<script" not in (out / "report.html").read_text("utf-8")


def test_both_arms_of_a_level_ask_the_same_and_no_two_levels_do(tmp_path: Path) -> None:
    out = tmp_path / "r"
    serving = FakeServing(pause_s=0.01)
    with served(serving) as url:
        command = ["bench", "load", "--concurrency", "1,2", "--prefix-tokens", "64", *SHORT]
        assert run([*command, "--target", url, "--out", str(out)]) == 0
    loaded = read_load(out)
    arm_of = {stage.number: (stage.level, stage.arm) for stage in loaded.header.stages}
    prompts = {(arm_of[r.stage], r.number): read_usage(r.usage).num_prompt_tokens for r in loaded.requests}
    for level in (1.0, 2.0):
        assert prompts[(level, "on"), 0] == prompts[(level, "off"), 0]
        own = [r for r in loaded.requests if arm_of[r.stage] == (level, "on")]
        cached = [read_usage(r.usage).num_cached_tokens or 0 for r in own]
        assert min(cached) < 32 < max(cached)  # each level begins cold


def test_an_open_loop_has_the_same_arrivals_in_both_arms(tmp_path: Path) -> None:
    out = tmp_path / "r"
    with served(FakeServing()) as url:
        assert (
            run(["bench", "load", "--rate", "20", "--prefix-tokens", "32", *SHORT, "--target", url, "--out", str(out)])
            == 0
        )
    loaded = read_load(out)
    for one in loaded.windows:
        assert one.num_due is not None
        assert one.begin_ns is not None
    begin = {one.stage: one.begin_ns or 0 for one in loaded.windows}
    due = [
        {r.number: r.intended_ns - begin[stage.number] for r in loaded.requests if r.stage == stage.number}
        for stage in loaded.header.stages
    ]
    common = due[0].keys() & due[1].keys()
    assert len(common) >= (loaded.windows[0].num_due or 0)
    assert all(due[0][number] == due[1][number] for number in common)
    assert results_in(out)["load"]["rows"][0]["on"]["from_due"]["ttft_ms"]["num_samples"] > 0


@contextlib.contextmanager
def trace_file(folder: Path, rows: list[dict[str, Any]]) -> Iterator[Path]:
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    yield path


@pytest.mark.parametrize("has_ids", [True, False])
def test_a_replay_shares_exactly_what_the_trace_shares(tmp_path: Path, has_ids: bool) -> None:
    rows = [
        {"timestamp": 60 * n, "input_length": 2 * 512 + 128, "output_length": 32, "hash_ids": [0, 1, 2 + n]}
        for n in range(10)
    ]
    out = tmp_path / "r"
    serving = FakeServing(has_tokenizer=has_ids)
    with trace_file(tmp_path, rows) as trace, served(serving, completions=True) as url:
        command = ["bench", "load", "--trace", str(trace), "--shrink", "16", "--jitter", "0", *SHORT]
        assert run([*command, "--duration", "0.7", "--target", url, "--out", str(out)]) == 0
    loaded = read_load(out)
    arm_of = {stage.number: stage.arm for stage in loaded.header.stages}
    found = {
        (arm_of[r.stage], r.number): (read_usage(r.usage).num_prompt_tokens, read_usage(r.usage).num_cached_tokens)
        for r in loaded.requests
    }
    assert {number for _, number in found} == set(range(10))
    for (arm, number), counts in found.items():
        shared = 64 if arm == "on" and number else 0  # two blocks of 512 / 16 tokens
        assert counts == (72, shared)
        assert loaded.requests[0].max_tokens == 2  # 32 / 16


def test_a_traces_own_messages_are_replayed(tmp_path: Path) -> None:
    rows = [
        {"timestamp": 50 * n, "messages": [{"role": "user", "content": f"word {n}"}], "output_length": 2}
        for n in range(6)
    ]
    out = tmp_path / "r"
    with trace_file(tmp_path, rows) as trace, served(FakeServing()) as url:
        assert run(["bench", "load", "--trace", str(trace), *SHORT, "--target", url, "--out", str(out)]) == 0
    assert {r.number for r in read_load(out).requests} == set(range(6))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--concurrency", "a"], "no list of numbers like 1,4,16"),
        (["--rate", "nan"], "no list of numbers like 0.5,1,2"),
        (["--concurrency", "1", "--rate", "1"], "two sorts of load"),
        (["--trace", "missing.jsonl"], "cannot read missing.jsonl"),
        (["--prefix-tokens", "9000"], "do not fit the context of 8192"),
        (["--concurrency", "4096"], "more than this machine can time truly"),
        (["--slo", "ttft_ms=fast"], "milliseconds above 0"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    out = tmp_path / "r"
    with served(FakeServing()) as url:
        assert run(["bench", "load", *words, "--target", url, "--out", str(out)]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert said in lines[-1]
    assert not any("Traceback" in line for line in lines)
    assert not out.exists()


def test_a_trace_with_nothing_due_in_a_later_stage_is_told_before_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"timestamp": 50 * n, "messages": [{"role": "user", "content": f"word {n}"}], "output_length": 2}
        for n in range(12)
    ]
    out, serving = tmp_path / "r", FakeServing()
    with trace_file(tmp_path, rows) as trace, served(serving) as url:
        command = [
            "bench",
            "load",
            "--trace",
            str(trace),
            *SHORT,
            "--warmup",
            "0.2",
            "--speed",
            "1,50",
            "--target",
            url,
        ]
        assert run([*command, "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert "the trace has no request between" in said
    assert "at speed 50" in said
    assert "--resume" not in said
    assert not out.exists()
    assert serving.num_requests < len(rows)  # what finds out about the server, and none of the trace's


def test_a_server_that_fails_is_shown_and_not_averaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "r"
    with served(FakeServing(fails=lambda n: "out of order" if n > 6 else None)) as url:
        assert run(["bench", "load", "--concurrency", "1", *SHORT, "--target", url, "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert "out of order" in printed.err
    assert "not reported" in printed.out
    row = results_in(out)["load"]["rows"][0]
    assert "failed" in row["on"]["refused"]


def test_an_interrupted_run_keeps_what_it_measured(tmp_path: Path) -> None:
    out = tmp_path / "r"
    with served(FakeServing(pause_s=0.01)) as url:
        words = ["bench", "load", "--concurrency", "1", "--prefix-tokens", "32", "--warmup", "0", "--duration", "600"]
        process = subprocess.Popen(
            [sys.executable, "-m", "anaphora", *words, "--target", url, "--out", str(out)],
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        records = out / RECORDS_FILE
        # 30 answers take 0.3 s at least, and a window of 0.1 s is reported
        while not (records.exists() and records.read_text("utf-8").count('"request"') > 30):
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    assert "stopped: 0 of 2 stages" in said
    assert "Traceback" not in said
    assert run(["report", str(out)]) == 0
    cell = results_in(out)["load"]["rows"][0]["on"]
    assert cell["num_measured"] > 0
    assert cell["doubts"][0]["name"] == "cut short"

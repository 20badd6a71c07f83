"""First-token times of `anaphora simulate`, from a report or from given coefficients."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from anaphora.cli import main as cli

ROOT = Path(__file__).parents[2]
TRACE = str(ROOT / "tests" / "data" / "traces" / "mooncake_conversation_300.jsonl.gz")
REPORT = str(ROOT / "benchmarks" / "results" / "first-light")
ARGV = ["simulate", TRACE, "--first", "12", "--capacity", "250,inf", "--policy", "lru", "--policy", "belady"]


@pytest.fixture
def coefficients(tmp_path: Path) -> str:
    path = tmp_path / "given.json"
    path.write_text(json.dumps({"step_ms": 5, "computed_ms_per_ktoken": 30, "overhead_ms": 2}))
    return str(path)


def asked(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert cli.run([*argv, "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    results: dict[str, Any] = json.loads(shown.out)
    return results


def test_without_latency_nothing_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    results = asked(capsys, *ARGV)
    assert "latency" not in results
    assert all("timing" not in run for run in results["runs"])
    assert results["trace"]["requests"] == 12


def test_json_has_the_timing_beside_what_was_there(capsys: pytest.CaptureFixture[str]) -> None:
    plain, results = asked(capsys, *ARGV), asked(capsys, *ARGV, "--latency", REPORT, "--max-num-seqs", "8")
    latency = results["latency"]
    assert latency["sources"] == [REPORT]
    assert latency["max_num_seqs"] == 8
    assert latency["max_num_batched_tokens"] == 2048
    assert latency["target_prefill_tokens"] == 512
    assert latency["coefficients"]["step_ms"] > 0
    assert len(latency["fit"]["residuals"]) == 23
    for run, untimed in zip(results["runs"], plain["runs"], strict=True):
        timing = run.pop("timing")
        assert run == untimed
        if run["policy"] == "belady":
            assert timing is None
            continue
        assert timing["on"]["num_requests"] == timing["off"]["num_requests"] == 12
        assert timing["on"]["max_running"] <= 8
        assert timing["on"]["ttft_ms"]["p50"] <= timing["on"]["ttft_ms"]["p90"] <= timing["on"]["e2e_ms"]["max"]


def test_a_rate_changes_waiting_and_no_ledger_of_one_after_another(
    coefficients: str, capsys: pytest.CaptureFixture[str]
) -> None:
    slow, fast = (
        asked(capsys, *ARGV[:4], "--capacity", "inf", "--latency", coefficients, "--rate-scale", rate)["runs"][0]
        for rate in ("0.001", "1000")
    )
    assert slow["ledger"] == fast["ledger"]
    slow_on, fast_on = (run["timing"]["on"] for run in (slow, fast))
    assert slow_on["queue_ms"]["p50"] < fast_on["queue_ms"]["p50"]
    assert slow_on["utilisation"] < fast_on["utilisation"]
    assert slow_on["ledger"] == slow["ledger"]


def test_nobody_joins_a_step_that_computes_enough(
    tmp_path: Path, coefficients: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four prompts at once, none of which begins like another."""
    log = tmp_path / "log.jsonl"
    prompts = ([first] * 300 for first in range(4))
    log.write_text("".join(json.dumps({"token_ids": prompt, "timestamp": 0}) + "\n" for prompt in prompts))
    argv = ["simulate", str(log), "--capacity", "inf", "--latency", coefficients]
    steps = {}
    for given in ([], ["0"], ["512"], ["1"]):
        results = asked(capsys, *argv, *(["--target-prefill-tokens", *given] if given else []))
        assert results["latency"]["target_prefill_tokens"] == int(given[0] if given else 512)
        steps[" ".join(given)] = results["runs"][0]["timing"]["on"]["steps"]
    assert steps == {"": 2, "0": 1, "512": 2, "1": 4}


def test_a_request_logs_server_is_simulated_with_its_own_target(
    tmp_path: Path, coefficients: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server = {
        "kind": "server",
        "format_version": 1,
        "content": "digests",
        "block_size": 16,
        "num_blocks": 100,
        "eviction_policy": "lru",
        "max_num_seqs": 8,
        "max_num_batched_tokens": 64,
    }
    served = {"kind": "served", "arrival_s": 1, "prompt_tokens": 20, "output_tokens": 1, "ledger": {"new": 20}}
    found = []
    for own, given in ((None, None), (0, None), (32, None), (32, "0"), (32, "7")):
        log = tmp_path / "log.jsonl"
        first = server if own is None else {**server, "target_prefill_tokens": own}
        log.write_text("".join(json.dumps(row) + "\n" for row in (first, {**served, "block_digests": ["aa"]})))
        options = [] if given is None else ["--target-prefill-tokens", given]
        results = asked(capsys, "simulate", str(log), "--capacity", "1x", "--latency", coefficients, *options)
        found.append(results["latency"]["target_prefill_tokens"])
    assert found == [0, 0, 32, 0, 7]


def test_tables_say_where_the_times_come_from(coefficients: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*ARGV, "--latency", REPORT, "--rate-scale", "50"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Simulated waiting times, in s" in shown
    assert "fitted to 23 medians" in shown
    assert "requests come faster than they are served" in shown
    assert "no cache" in shown
    assert cli.run([*ARGV, "--latency", coefficients]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.replace(" ", "").endswith(f"From{coefficients}.")


@pytest.mark.draws
def test_files_can_be_used_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    fitted = asked(capsys, *ARGV, "--latency", REPORT, "--out", str(out))
    rows = list(csv.DictReader((out / "timing.csv").read_text().splitlines()))
    assert [(row["policy"], row["capacity_blocks"], row["cache"]) for row in rows] == [
        ("lru", "250", "on"),
        ("lru", "250", "off"),
        ("lru", "", "on"),
        ("lru", "", "off"),
    ]
    assert float(rows[0]["ttft_ms_p99"]) == fitted["runs"][0]["timing"]["on"]["ttft_ms"]["p99"]
    assert "timing" not in csv.DictReader((out / "runs.csv").read_text().splitlines()).fieldnames  # type: ignore[operator]
    assert (out / "figure-ttft.svg").exists()
    page = (out / "report.html").read_text()
    assert page.count("<svg") == 5
    assert "Simulated waiting times" in page
    on, off = (fitted["runs"][0]["timing"][arm]["ttft_ms"]["p50"] / 1e3 for arm in ("on", "off"))
    told = re.search(r"their first token within ([\d,.]+) s and .*; without a prefix cache ([\d,.]+) s and", page)
    assert told is not None
    assert [float(number.replace(",", "")) for number in told.groups()] == pytest.approx([on, off], rel=0.01)
    again = asked(capsys, *ARGV, "--latency", str(out / "latency.json"))
    assert again["runs"] == fitted["runs"]


def test_lengths_are_told_where_unknown(tmp_path: Path, coefficients: str, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps({"token_ids": [*range(40)], "timestamp": 1000 * i}) + "\n" for i in range(3)))
    argv = ["simulate", str(log), "--capacity", "inf,1", "--latency", coefficients]
    assert asked(capsys, *argv)["latency"]["requests_of_unknown_output"] == 3
    assert cli.run(argv) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "3 requests do not tell how much was answered: one token each was simulated" in shown
    assert "3 prompts can never fit and were refused" in shown


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--rate-scale", "2"], "--rate-scale is about first-token times, which need --latency"),
        (["--max-num-batched-tokens", "8"], "--max-num-batched-tokens is about first-token times"),
        (["--target-prefill-tokens", "0"], "--target-prefill-tokens is about first-token times"),
        (["--latency", "none.json"], "cannot read the latency file none.json"),
        (["--latency", "nowhere"], "give a report folder of `anaphora bench`"),
        (["--latency", REPORT, "--sample", "0.5"], "with --latency use --first N"),
        (["--latency", REPORT, "--latency", "a.json"], "give --latency once, or report folders only"),
        (["--latency", REPORT, "--rate-scale", "0"], "scaled by a number above 0"),
    ],
)
def test_mistakes_are_one_line(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*ARGV[:4], "--capacity", "250", *argv]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""

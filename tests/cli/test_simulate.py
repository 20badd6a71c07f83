"""`anaphora simulate` as people and programs use it."""

import csv
import json
import re
import sys
from pathlib import Path

import pytest

from anaphora.cli import main as cli
from anaphora.kvcache.eviction import DEFAULT_POLICY, EVICTION_POLICIES

DATA = Path(__file__).parents[1] / "data"
TRACE = str(DATA / "cases" / "16-simulator-lru-small" / "trace.jsonl")


def test_json_is_one_object(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["anaphora", "simulate", "some trace"])
    assert cli.run(["simulate", TRACE, "--capacity", "4,inf", "--policy", "lru", "--policy", "belady", "--json"]) == 0
    shown = capsys.readouterr()
    results = json.loads(shown.out)
    assert shown.err == ""
    assert [(run["policy"], run["capacity_blocks"]) for run in results["runs"]] == [
        ("lru", 4),
        ("lru", None),
        ("belady", 4),
        ("belady", None),
    ]
    unbounded = results["runs"][1]
    assert unbounded["block_size"] == 512
    assert unbounded["num_requests"] == 7
    assert unbounded["prompt_tokens"] == sum(unbounded["ledger"].values()) == 20 * 512
    assert unbounded["cached_tokens"] == 9 * 512
    assert (unbounded["token_hit_rate"], unbounded["block_hit_rate"]) == (9 / 20, 9 / 20)
    reuse = results["reuse"]
    assert (reuse["block_uses"], reuse["first_uses"]) == (20, 10)
    assert reuse["lru"]["token_hit_rate"][-1] == 9 / 20
    assert results["command"] == "anaphora simulate 'some trace'"
    assert (unbounded["trace_rule_token_hit_rate"], unbounded["trace_rule_block_hit_rate"]) == (0.5, 0.5)


def test_default_is_the_engines_own_policy_and_answers_to_both_names(capsys: pytest.CaptureFixture[str]) -> None:
    plain = ["simulate", TRACE, "--capacity", "4", "--json"]
    assert cli.run(plain) == cli.run([*plain, "--policy", "default", "--policy", "return-rate"]) == 0
    unasked, asked = (json.loads(line)["runs"] for line in capsys.readouterr().out.splitlines())
    assert unasked == asked[:1]
    assert [run["policy"] for run in asked] == ["default", "return-rate"]
    assert {**asked[1], "policy": "default"} == asked[0]


def test_the_help_names_every_policy(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assert cli.run(["simulate", "--help"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "--policy " in line)
    assert all(f" {name}" in line for name in (*EVICTION_POLICIES, "default", "belady"))
    assert f"the engine's ({DEFAULT_POLICY})" in line


def test_tables_show_both_rules_and_the_dirt(capsys: pytest.CaptureFixture[str]) -> None:
    dirty = str(DATA / "cases" / "15-trace-dirty-mooncake" / "trace.jsonl")
    assert cli.run(["simulate", dirty, "--capacity", "5%"]) == 2
    assert "capacity 5% is less than one block" in capsys.readouterr().err
    assert cli.run(["simulate", dirty, "--capacity", "1,inf"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "6 requests (mooncake, block ids for 512 tokens)" in shown
    assert "left out: 1 × the file ends in the middle of a row (line 10)" in shown
    assert "Engine's rule" in shown
    assert "! longer than a cache of 1 block: 6 prompts; an engine would refuse" in shown


def test_sizes_that_nobody_asked_for_are_left_out_where_they_make_no_block(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["simulate", TRACE, "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [run["capacity_blocks"] for run in runs] == [1, 2, 4, 10, None]


def test_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["simulate", TRACE, "--capacity", "4,inf", "--out", str(tmp_path / "out"), "--jobs", "2"]) == 0
    rows = list(csv.DictReader((tmp_path / "out" / "runs.csv").read_text().splitlines()))
    assert [row["capacity_blocks"] for row in rows] == ["4", ""]
    assert json.loads((tmp_path / "out" / "results.json").read_text())["trace"]["requests"] == 7
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("<svg") == 4
    assert not re.search(r'(src|href)="(?!#)|url\((?!#)|@import', page.replace('xlink:href="#', "")), (
        "the page loads something"
    )
    assert {path.name for path in (tmp_path / "out").glob("figure-*")} == {
        f"figure-{name}.{kind}" for name in ("hit-rate", "ledger", "reuse", "working-set") for kind in ("png", "svg")
    }


def test_a_sample_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    trace = str(DATA / "traces" / "mooncake_conversation_300.jsonl.gz")
    argv = ["simulate", trace, "--capacity", "1k", "--sample", "0.5"]
    assert cli.run([*argv, "--json"]) == 0
    results = json.loads(capsys.readouterr().out)
    drawn, (run,) = results["sample"], results["runs"]
    assert (run["capacity_blocks"], run["num_requests"]) == (1000, drawn["requests"])
    assert drawn["group_depth_blocks"] == 2
    assert run["token_hit_rate_error"] >= 0
    assert run["sampled_token_hit_rate"] == run["cached_tokens"] / run["prompt_tokens"]
    assert run["sampled_capacity_blocks"] > 0
    assert cli.run(argv) == 0
    assert f"sample: {drawn['requests']} requests, chosen by the first 2 blocks" in capsys.readouterr().out
    assert cli.run(["simulate", trace, "--sample", "2"]) == 2
    assert "above 0 and at most 1, got 2.0" in capsys.readouterr().err


def test_texts_are_tokenised_as_the_server_does(
    tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    parts = [{"type": "text", "text": "one two three four five six seven eight nine ten"}]
    chat = {"model": "m", "messages": [{"role": "user", "content": parts}]}
    bad = {"model": "m", "messages": [{"role": "nobody", "content": "x"}]}
    worse = {**chat, "chat_template_kwargs": {"tools": []}}
    rows = (chat, chat, bad, worse, {"prompt": "once upon a time"}, {"prompt": ""})
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert cli.run(["simulate", str(log), "--capacity", "inf"]) == 2
    assert "--model" in capsys.readouterr().err
    argv = ["simulate", str(log), "--capacity", "inf", "--model", str(tiny_model), "--block-size", "4", "--json"]
    assert cli.run(argv) == 0
    results = json.loads(capsys.readouterr().out)
    found = {finding["kind"]: finding["lines"] for finding in results["trace"]["findings"]}
    assert (found["unreadable_prompt"], found["empty_prompt"]) == ([3, 4], [6])
    assert results["runs"][0]["num_requests"] == 3
    assert results["runs"][0]["cached_tokens"] > 0
    argv[3] = f"1MiB@{tiny_model}"
    assert cli.run(argv) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["capacity_blocks"] > 0


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([TRACE, "--policy", "newest"], "policy 'newest' is not known; choose one of: belady, default"),
        ([TRACE, "--capacity", ""], "--capacity names no size"),
        ([TRACE, "--capacity", " , "], "--capacity names no size"),
        ([TRACE, "--out", TRACE], "cannot make the folder"),
        ([TRACE, "--capacity", "much"], "capacity 'much' is not understood"),
        ([TRACE, "--block-size", "100"], "must be a multiple"),
        (["missing.jsonl"], "cannot read missing.jsonl"),
    ],
)
def test_mistakes_are_one_line(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["simulate", *argv]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""

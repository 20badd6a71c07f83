"""The whole way: a server of our own with a tiny model, started, measured in both arms and stopped."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from anaphora.cli.main import run
from anaphora.lab.targets.tokenizer import LocalTokenizer
from anaphora.traces.records import read_run
from tests.models_for_tests import tiny_checkpoint

LONG = [
    "--lengths",
    "64,128,256",
    "--repeats",
    "2",
    "--prefix-tokens",
    "300",
    "--questions",
    "3",
    "--output-tokens",
    "4",
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint(tmp_path_factory.mktemp("lab") / "tiny", max_position_embeddings=1024)


@pytest.mark.parametrize("arms", ["auto", "flag"])
def test_both_experiments_on_a_server_of_our_own(tmp_path: Path, model: Path, arms: str) -> None:
    out = tmp_path / "r"
    few_threads = ["--server-option", "--num-threads=1"]
    which = ["--model", str(model)] if arms == "auto" else ["--launch", f"ours:{model}"]
    assert run(["bench", "all", *which, "--arms", arms, "--out", str(out), *LONG, *few_threads]) == 0
    results: dict[str, Any] = json.loads((out / "results.json").read_text("utf-8"))
    experiments = results["experiments"]
    for experiment in experiments.values():
        hit = experiment["hit_rate_percent"]
        assert hit["usage"] == hit["metrics"] == hit["predicted"] > 40
    checks = {check["name"]: (check["status"], check["seen"]) for check in results["trust"]}
    for name in ("complete", "off requests missed", "on requests hit", "witnesses agree", "equal prompts", "streamed"):
        assert checks[name][0] == "ok", checks[name]
    for length, row in zip((64, 128, 256), experiments["gradient"]["rows"], strict=True):
        assert length < row["prompt_tokens"] < length + 120  # the template and the question, by a tiny vocabulary
        assert row["cached_tokens"] == (row["prompt_tokens"] - 1) // 16 * 16
    assert results["environment"]["num_cpus"] > 0
    assert results["target"]["kind"] == "Anaphora"
    mechanism = results["run"]["settings"]["mechanism"]
    assert mechanism == ("salt" if arms == "auto" else "flag")
    servers = {record.server for record in read_run(out).requests}
    assert servers == ({"main"} if arms == "auto" else {"on", "off"})
    assert str(out) not in subprocess.run(["ps", "-eo", "args"], check=True, capture_output=True, text=True).stdout


def test_a_tokenizer_here_stands_in_for_one_there(model: Path) -> None:
    import asyncio

    tokenizer = LocalTokenizer.of_model(str(model))
    ids = asyncio.run(tokenizer.chat_token_ids([{"role": "user", "content": "cached blocks"}]))
    count = asyncio.run(tokenizer.count_text("cached blocks"))
    assert ids is not None
    assert count is not None
    assert 0 < count < len(ids)


def test_a_model_that_does_not_exist_is_told_by_the_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "switch", "--model", str(tmp_path / "none"), "--out", str(tmp_path / "r")]) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("anaphora: error: the server did not start: ")
    assert "no such folder or file" in last
    assert sys.executable not in last

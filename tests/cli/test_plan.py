"""`anaphora plan`: from a config.json alone."""

import json
from pathlib import Path

import pytest

from anaphora.cli.main import run
from tests.models_for_tests.tiny_checkpoint import tiny_config


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(tiny_config("qwen2")))
    return tmp_path


def test_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", str(folder), "--gpu-memory", "2GiB", "--max-model-len", "256"]) == 0
    lines = dict(line.strip().rsplit("  ", 1) for line in capsys.readouterr().out.splitlines())
    rows = {name.strip(): value.strip() for name, value in lines.items()}
    assert rows["gpu"] == "2.00 GiB"
    assert rows["usable"] == "1.80 GiB"
    assert rows["kv bytes per token"] == "384"
    assert rows["max model len"] == "256"


def test_json_has_the_same_numbers_in_bytes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["plan", str(folder), "--gpu-memory", "4GiB", "--gpu-memory-utilization", "0.5", "--dtype", "float32"]
    assert run([*argv, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    taken = sum(facts[f"{name}_bytes"] for name in ("weight", "activation", "graph", "context"))
    assert facts["usable_bytes"] == 2**31
    assert facts["kv_bytes"] == 2**31 - taken
    assert facts["num_blocks"] == facts["kv_bytes"] // facts["block_bytes"]
    assert facts["block_bytes"] == 16 * facts["kv_bytes_per_token"] == 16 * 768
    assert facts["num_longest_requests"] == facts["num_tokens"] // 512


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--gpu-memory", "much"], "--gpu-memory must be a number of bytes, such as 1GiB, got 'much'"),
        (["--gpu-memory", "0GiB"], "--gpu-memory must be a number of bytes"),
        (["--gpu-memory", "24"], "--gpu-memory 24 would be bytes: did you mean 24GiB?"),
        (["--gpu-memory", "1" + 400 * "0"], "--gpu-memory must be a number of bytes"),
        (["--gpu-memory=-5GiB"], "--gpu-memory must be a number of bytes"),
        (["--gpu-memory", "1GiB", "--dtype", "int8"], "dtype must be auto, float32, bfloat16, float16"),
        (["--gpu-memory", "256MiB"], "the model does not fit"),
    ],
)
def test_mistakes_are_one_line(argv: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", str(folder), *argv]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(("text", "gib"), [("2TiB", 2048), ("2 tib", 2048), ("1TB", 931), ("24GiB", 24), ("24g", 22)])
def test_sizes(text: str, gib: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", str(folder), "--gpu-memory", text, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["gpu_bytes"] // 2**30 == gib


def test_a_model_that_does_not_fit_keeps_its_context_in_the_table(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", str(folder), "--gpu-memory", "256MiB", "--json"]) == 2
    facts = json.loads(capsys.readouterr().out)
    assert (facts["num_tokens"], facts["num_longest_requests"]) == (0, 0)
    assert facts["max_model_len"] > 1


@pytest.mark.parametrize("model", ["", "./nothing-here", "/nothing/here", "~/nothing-here", "../nothing-here"])
def test_a_path_without_a_model_is_not_asked_of_the_hub(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", model, "--gpu-memory", "4GiB"]) == 2
    assert "no such folder or file" in capsys.readouterr().err
